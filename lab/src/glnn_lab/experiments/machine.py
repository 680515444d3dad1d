"""Threads, peak memory, versions and machine of a run."""

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
from glnn.report.text import find_version

PACKAGES = ("glnn", "numpy", "scipy", "torch", "scikit-learn", "torch_geometric")
_STATUS, _CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")
_RESET_PEAK = "5"
_FOLDERS = (Path(glnn.__file__).parent, Path(__file__).parents[1])  # library, laboratory


@contextmanager
def use_threads(count: int) -> Iterator[None]:
    """Use ``count`` threads inside the block, in PyTorch and in the BLAS libraries.

    On one thread sums have one order, so results do not depend on ``--jobs``.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        with threadpool_limits(count):
            yield
    finally:
        torch.set_num_threads(before)


class PeakMemory:
    """Peak memory of this process in MB since the object was made.

    On systems that cannot reset the peak (Linux can), since the process began.
    """

    def __init__(self) -> None:
        gc.collect()
        with suppress(
            OSError, AttributeError
        ):  # return freed memory of earlier cells to the system
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
def software_versions() -> dict[str, str]:
    """Return the versions of Python and the packages, the commit and the processor."""
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        found[package] = find_version(package) or "not installed"
    return found | {"commit": source_commit(), "processor": _processor()}


@functools.cache
def source_commit() -> str:
    """Return the commit of library and laboratory; ``+`` marks uncommitted changes.

    It is ``unknown`` if one of them is in no source tree, or if they are in different ones.
    """
    heads = {_git("rev-parse", "--short=12", "HEAD", folder=folder) for folder in _FOLDERS}
    head = heads.pop()
    if head is None or heads:
        return "unknown"
    changed = any(_git("status", "--porcelain", "--", ".", folder=folder) for folder in _FOLDERS)
    return f"{head}+" if changed else head


def matches_commit(recorded: str) -> bool:
    """Return whether the code is the same as at a recorded commit."""
    if source_commit() == "unknown" or recorded.endswith("+"):
        return False
    same = (_git("diff", "--quiet", recorded, "--", ".", folder=folder) for folder in _FOLDERS)
    return all(answer is not None for answer in same)


def machine_facts() -> dict[str, str]:
    """Return cores, memory and system as text."""
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
