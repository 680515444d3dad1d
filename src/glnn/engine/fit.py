"""One fit from features and labels to a graph and a trained network."""

import dataclasses
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch

from glnn.distributed import Partition, agreed
from glnn.engine.callbacks import Callback, History
from glnn.engine.checkpoint import Checkpoint
from glnn.engine.fit_problem import FitProblem
from glnn.engine.inputs import Scaling, generator_for
from glnn.engine.rounds import Rounds
from glnn.engine.row_task import RowTask
from glnn.engine.settings import FitSettings
from glnn.engine.steps import FitState, Steps, probabilities_of, with_structure
from glnn.engine.tasks import ClassifierTask, LiteralTask
from glnn.exceptions import GlnnError, InputError
from glnn.graph.operators import Structure
from glnn.solver import Certificate, LearnedGraph, NewRowProblem
from glnn.solver.attribution import LinkShares

# --- memory: How much memory a fit will need, said before it is taken

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


# --- fit: One fit from features and labels to a graph and a trained network


@dataclass(frozen=True)
class FitResult:
    """What a fit leaves: the graph with its proof, the network, and how it came about.

    ``settings.head`` is the head that was taken, ``settings.partners`` those that answer together
    with it, ``tasks`` all of them with their ``temperatures``, and ``row_graph`` what heads on
    rows see; ``scaled`` are the scaled features, beside those of the ``structure`` if it is a
    signal. ``learned`` is the last solution of the graph
    problem where this process has solved it alone; after a checkpoint ``shares`` says in its stead
    which term made which link. ``new_rows`` is the one-row problem of new nodes, ``None`` for the
    preset ``literal``. ``choices`` is what the fit chose by itself. Everything with a row a node
    has this process's rows.
    """

    settings: FitSettings
    scaling: Scaling
    scaled: Any
    partition: Partition
    adjacency: sp.csr_matrix
    prior: sp.csr_matrix | None
    learned: LearnedGraph | None
    certificate: Certificate | None
    new_rows: NewRowProblem | None
    tasks: tuple[ClassifierTask | RowTask | LiteralTask, ...]
    temperatures: tuple[float, ...]
    row_graph: sp.csr_matrix | None
    structure: Structure | None
    probabilities: np.ndarray
    history: History
    choices: dict[str, float | str]
    shares: LinkShares | None = None

    @property
    def distrusts_graph(self) -> bool:
        """Whether a graph was given but the fit went on without it."""
        return self.choices.get("source") == "features"


def fit_problem(
    problem: FitProblem,
    settings: FitSettings,
    *,
    seed: int,
    device: str = "cpu",
    callbacks: Sequence[Callback] = (),
    checkpoint: Path | None = None,
) -> FitResult:
    """Run the rounds of a preset, or the literal method, on one problem.

    Of several processes each calls it with its rows. ``checkpoint`` is a folder for the state
    after each round; a fit goes on from what it finds there.
    """
    if settings.is_literal and (problem.peers.size > 1 or checkpoint is not None):
        raise InputError(
            "the preset 'literal' must run in one process and without a checkpoint: it trains a "
            "dense matrix. Use 'default' or 'paper'."
        )
    settings = with_structure(settings, problem)
    agreed(problem.peers, lambda: check_memory(problem, settings))
    scaling = Scaling.fit(problem.features, settings.scaling, problem.peers, trims=settings.trims)
    with _told_if_full(device):
        steps = Steps(problem, settings, scaling, seed=seed, device=device, callbacks=callbacks)
        if settings.is_literal:
            return _fit_literal(steps)
        return _result(steps, _final_state(steps, checkpoint))


def _final_state(steps: Steps, folder: Path | None) -> FitState:
    rounds = Rounds(steps)
    if folder is None:
        return rounds.run(steps.start())
    checkpoint = Checkpoint(folder, steps)
    return rounds.run(checkpoint.restored() or steps.start(), after_round=checkpoint.save)


def _result(steps: Steps, state: FitState) -> FitResult:
    assert state.learned is not None and state.trained is not None
    members = (state.trained, *state.partners)
    return FitResult(
        dataclasses.replace(
            steps.settings,
            head=state.trained.task.settings,
            partners=tuple(partner.task.settings for partner in state.partners),
        ),
        steps.scaling,
        steps.scaled,
        steps.partition,
        state.adjacency,
        None if state.given is None else state.given.prior,
        state.learned.learned,
        state.learned.certificate,
        state.new_rows,
        tuple(member.task for member in members),
        tuple(member.temperature for member in members) if len(members) > 1 else (1.0,),
        state.row_graph if _needs_row_graph(state) else None,
        steps.structure,
        state.answer,
        steps.history,
        choices_of(steps.problem, state),
        state.learned.kept_shares,
    )


def _needs_row_graph(state: FitState) -> bool:
    assert state.trained is not None  # rounds have been run
    return any(member.task.settings.is_on_rows for member in (state.trained, *state.partners))


@contextmanager
def _told_if_full(device: str) -> Iterator[None]:
    """Say in one line that a device has too little memory."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        other = "spread the fit over processes" if device == "cpu" else "take device='cpu'"
        raise GlnnError(
            f"the device {device!r} has too little memory for this fit "
            f"({' '.join(str(error).split())[:120]}). "
            f"Set n_candidates to fewer, or {other}."
        ) from None


def choices_of(problem: FitProblem, state: FitState) -> dict[str, float | str]:
    """Return what the rounds chose by themselves.

    ``source`` is what the graph was learned from: ``given``, ``features`` in spite of it, ``none``.
    """
    assert state.trained is not None  # rounds have been run
    members, source = (state.trained, *state.partners), "none"
    if problem.graph is not None:
        source = "features" if state.given is None else "given"
    return {
        "source": source,
        "signal": state.graph.signal,
        "gate": state.trained.task.gate,
        "closeness": state.graph.weights.closeness,
        "head": " + ".join(member.task.settings.head for member in members),
        "n_steps": state.head.n_steps,
        "n_rounds": state.n_rounds,
    }


def _fit_literal(steps: Steps) -> FitResult:
    """Train graph and network together, as the paper prints it."""
    problem, settings, device = steps.problem, steps.settings, steps.features.device
    prior = None if steps.given is None else steps.given.prior
    task = LiteralTask(
        steps.features,
        problem.labels,
        settings.head,
        LiteralTask.objective(steps.signal, prior, settings.graph, device),
        init=generator_for(steps.seed, 1, 0),
        noise=generator_for(steps.seed, 1, 1, device=device),
    )
    steps.train(task, "literal", settings.head)
    with torch.no_grad():
        dense = task.adjacency().to_dense().clamp_min(0).double().cpu().numpy()
    return FitResult(
        settings,
        steps.scaling,
        steps.scaled,
        steps.partition,
        sp.csr_matrix(np.maximum(dense, dense.T)),
        prior,
        None,
        None,
        None,
        (task,),
        (1.0,),
        None,
        steps.structure,
        probabilities_of(task),
        steps.history,
        {},
    )
