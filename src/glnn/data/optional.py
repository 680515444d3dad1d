"""Packages that only some formats need, imported when they are."""

import importlib
import warnings
from typing import Any

from glnn.exceptions import MissingDependencyError

_EXTRAS = {"pyarrow": "tables", "openpyxl": "tables", "torch_geometric": "pyg", "optuna": "tune"}


def need(module: str) -> Any:
    """Return an optional module, or say which extra of glnn brings it.

    Examples
    --------
    >>> need("json").dumps([1])
    '[1]'
    """
    package = module.partition(".")[0]
    try:
        with warnings.catch_warnings():  # PyTorch Geometric scripts functions at import
            warnings.filterwarnings("ignore", message=r".*torch\.jit", category=DeprecationWarning)
            return importlib.import_module(module)
    except ImportError as error:
        extra = _EXTRAS.get(package, package)
        raise MissingDependencyError(
            f"this needs the package {package}, which is not installed. "
            f"Install it with: pip install 'glnn[{extra}]'"
        ) from error
