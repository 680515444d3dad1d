"""Run ``python -m glnn`` as the command ``glnn``."""

import sys

from glnn.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
