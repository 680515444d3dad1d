"""What a result depends on besides its cell: threads, memory, versions, machine."""

import ctypes
import functools
import gc
import os
import platform
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import torch
from threadpoolctl import threadpool_limits

import glnn
from glnn.report.text import version_of

PACKAGES = ("glnn", "numpy", "scipy", "torch", "scikit-learn", "torch_geometric")
_STATUS, _CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")
_RESET_PEAK = "5"
_FOLDERS = (Path(glnn.__file__).parent, Path(__file__).parents[1])
"""Where library and laboratory lie."""


@contextmanager
def n_threads(count: int) -> Iterator[None]:
    """Compute on so many threads inside the block, whichever library computes.

    On one thread sums add up in one order, whatever ``--jobs``.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        with threadpool_limits(count):
            yield
    finally:
        torch.set_num_threads(before)


class PeakMemory:
    """The most memory this process held at once, in MB, since the object was made.

    Where the system cannot start the count anew (it can on Linux), since the process began.
    """

    def __init__(self) -> None:
        gc.collect()
        with suppress(OSError, AttributeError):  # hand back what earlier cells have left
            ctypes.CDLL(None).malloc_trim(0)
        with suppress(OSError):
            _CLEAR.write_text(_RESET_PEAK)

    def megabytes(self) -> float:
        """Return the peak so far."""
        with suppress(OSError):
            for line in _STATUS.read_text().splitlines():
                if line.startswith("VmHWM:"):
                    return int(line.split()[1]) / 1024
        import resource  # not on every system

        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak / (1024**2 if sys.platform == "darwin" else 1024)


@functools.cache
def versions() -> dict[str, str]:
    """Return the versions of Python and the packages, the commit of the code, the processor."""
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        found[package] = version_of(package) or "not installed"
    return found | {"commit": commit(), "processor": _processor()}


@functools.cache
def commit() -> str:
    """Return the commit that library and laboratory come from; ``+`` marks changed code.

    Where one of them lies in no source tree, or they lie in different ones: ``unknown``.
    """
    heads = {_git("rev-parse", "--short=12", "HEAD", folder=folder) for folder in _FOLDERS}
    head = heads.pop()
    if head is None or heads:
        return "unknown"
    changed = any(_git("status", "--porcelain", "--", ".", folder=folder) for folder in _FOLDERS)
    return f"{head}+" if changed else head


def is_code_of(recorded: str) -> bool:
    """Say whether the code has stayed as it was at a recorded commit."""
    if commit() == "unknown" or recorded.endswith("+"):
        return False
    same = (_git("diff", "--quiet", recorded, "--", ".", folder=folder) for folder in _FOLDERS)
    return all(answer is not None for answer in same)


def machine_facts() -> dict[str, str]:
    """Return cores, memory and system in words."""
    return {
        "cores": str(os.cpu_count()),
        "memory": f"{_memory_gb():.0f} GB",
        "system": platform.platform(),
    }


def _git(*words: str, folder: Path) -> str | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *words], capture_output=True, text=True, timeout=20
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def _processor() -> str:
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def _memory_gb() -> float:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1024**3
    except (ValueError, OSError, AttributeError):
        return float("nan")
