"""Every example runs as a user would run it, with few epochs."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("*.py"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example_runs(path, tmp_path):
    quick = ["--epochs", "5"] if "--epochs" in path.read_text(encoding="utf-8") else []
    done = subprocess.run(
        [sys.executable, "-W", "error", path, *quick],
        cwd=tmp_path,
        env={**os.environ, "OMP_NUM_THREADS": "1", "MPLBACKEND": "template"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout
    assert not done.stderr
