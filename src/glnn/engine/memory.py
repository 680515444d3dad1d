"""How much memory a fit will need, said before it is taken."""

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from glnn.engine.problem import FitProblem
from glnn.engine.settings import FitSettings
from glnn.exceptions import InputError

_UNITS = {"": 1, "B": 1, "KB": 2**10, "MB": 2**20, "GB": 2**30, "TB": 2**40}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]?B?)", re.IGNORECASE)
FIXED = 2**26
"""What a fit takes whatever its size."""
_SLACK = 2**27
"""Below this many free bytes not even an error could be told."""
_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def expected_bytes(problem: FitProblem, settings: FitSettings) -> int:
    r"""Return about how many bytes a fit takes at its peak, on top of its data.

    For the preset ``literal``, :math:`56\,n^2`: a dense matrix in single precision with its
    gradient, two moments, the prior graph, and what one evaluation of the loss leaves. Otherwise
    a sum over what is stored: nodes x (candidates and hidden units), given edges, and entries of
    the features. The factors were measured; see docs/reliability.md.
    """
    n_nodes, n_features = map(int, problem.features.shape)
    if settings.is_literal:
        return 56 * n_nodes * n_nodes
    graph = settings.graph_settings(problem.graph is not None)
    n_stored = int(getattr(problem.features, "nnz", n_nodes * n_features))
    n_given = 0 if problem.graph is None else int(problem.graph.nnz)
    n_pairs = n_nodes * graph.n_candidates + n_given
    return FIXED + 200 * n_pairs + 64 * n_nodes * settings.head.n_hidden + 40 * n_stored


def check_memory(problem: FitProblem, settings: FitSettings) -> None:
    """Refuse a fit that needs more memory than there is, before any of it is taken."""
    free, needed = free_bytes(), expected_bytes(problem, settings)
    if free is None or needed <= free:
        return
    way_out = (
        "Use preset 'default' or 'paper', which keep the graph sparse"
        if settings.is_literal
        else "Set n_candidates to fewer, or spread the fit over processes with torchrun"
    )
    raise InputError(
        f"this fit of {problem.features.shape[0]:,} nodes needs about {shown_bytes(needed)} of "
        f"memory, got {shown_bytes(free)}. {way_out}."
    )


def is_out_of_memory(error: Exception) -> bool:
    """Return whether an error of NumPy or PyTorch means that memory has run out."""
    if isinstance(error, MemoryError | torch.cuda.OutOfMemoryError):
        return True
    words = ("can't allocate memory", "not enough memory")
    return isinstance(error, RuntimeError) and any(text in str(error) for text in words)


def free_bytes() -> int | None:
    """Return how many bytes this process can still take; ``None`` where nothing says so.

    That is what the machine has free, less where a container or :func:`capped_memory` allows less.
    """
    free = _number("/proc/meminfo", "MemAvailable:")
    if free is None:
        return None
    free *= 1024
    for name in _LIMITS:
        free = min(free, _number(name) or free)
    used, soft = _number("/proc/self/status", "VmData:"), _data_limit()
    return free if used is None or soft is None else min(free, max(0, soft - 1024 * used))


def _number(path: str, after: str = "") -> int | None:
    """Return the first whole number of a file, or the one that follows a word."""
    try:
        text = Path(path).read_text(encoding="ascii")
        return int((text.split(after)[1] if after else text).split()[0])
    except (OSError, LookupError, ValueError):
        return None


def _data_limit() -> int | None:
    """Return the limit of this process's own memory; ``None`` without one."""
    if not sys.platform.startswith("linux"):  # elsewhere it counts something else
        return None
    import resource

    soft, _ = resource.getrlimit(resource.RLIMIT_DATA)
    return None if soft == resource.RLIM_INFINITY else soft


@contextmanager
def capped_memory(limit: int | None) -> Iterator[None]:
    """Let the system refuse this process more memory inside the block, where it can (Linux)."""
    if limit is None or not sys.platform.startswith("linux"):
        yield
        return
    import resource

    used = 1024 * (_number("/proc/self/status", "VmData:") or 0)
    if limit < used + _SLACK:
        raise InputError(
            f"the memory limit must be at least {shown_bytes(used + _SLACK)}, which glnn takes by "
            f"itself, got {shown_bytes(limit)}."
        )
    before = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, before)


def parse_bytes(text: str) -> int:
    """Return a size such as ``500MB`` or ``1.5 GB`` in bytes.

    Examples
    --------
    >>> parse_bytes("1.5GB") == 3 * 2**29, parse_bytes("200"), shown_bytes(parse_bytes("2g"))
    (True, 200, '2.0 GB')
    """
    found = _SIZE.fullmatch(text.strip())
    if found is None:
        raise InputError(f"a size must be a number with a unit such as 500MB or 2GB, got {text!r}.")
    unit = found[2].upper()
    return int(float(found[1]) * _UNITS[unit if not unit or unit.endswith("B") else f"{unit}B"])


def shown_bytes(count: int) -> str:
    """Return a number of bytes in words.

    Examples
    --------
    >>> shown_bytes(2**31), shown_bytes(3 * 2**19)
    ('2.0 GB', '1.5 MB')
    """
    for unit in ("TB", "GB", "MB", "KB"):
        if count >= _UNITS[unit]:
            return f"{count / _UNITS[unit]:.1f} {unit}"
    return f"{count} bytes"
