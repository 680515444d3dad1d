"""PyTorch Geometric, imported when a method first needs it."""

import warnings
from typing import Any

from glnn.data.optional import need


def layers() -> Any:
    """Return ``torch_geometric.nn``, or say which extra of glnn brings it."""
    with warnings.catch_warnings():  # its import scripts functions, which torch deprecates
        warnings.filterwarnings("ignore", message=r".*torch\.jit", category=DeprecationWarning)
        return need("torch_geometric.nn")
