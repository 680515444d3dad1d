"""Versions of what a result depends on."""

import platform
from importlib.metadata import PackageNotFoundError, version

PACKAGES = ("glnn", "numpy", "scipy", "torch", "scikit-learn")
EXTRAS = {
    "matplotlib": "report",
    "pyarrow": "tables",
    "openpyxl": "tables",
    "torch_geometric": "pyg",
    "faiss-cpu": "ann",
    "optuna": "tune",
    "tensorboard": "tensorboard",
}
"""Optional packages, and the extra of glnn that brings each."""


def version_of(package: str) -> str | None:
    """Return the installed version of a package, or nothing.

    Examples
    --------
    >>> version_of("no such package") is None
    True
    """
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def versions() -> dict[str, str]:
    """Return Python's version and those of the packages that results depend on."""
    found = {package: version_of(package) or "not installed" for package in PACKAGES}
    return {"python": platform.python_version(), **found}
