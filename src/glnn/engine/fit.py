"""A whole fit: memory check, rounds of graph step and classifier step, result."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch

from glnn.distributed import run_everywhere
from glnn.engine.callbacks import Callback, History
from glnn.engine.checkpoint import Checkpoint
from glnn.engine.fit_problem import Attribution, FitProblem
from glnn.engine.inputs import Scaling, make_generator
from glnn.engine.model import FittedTrack, Model, digest_rows
from glnn.engine.rounds import HeldOutLabels, Mixture, Rounds
from glnn.engine.settings import FitSettings
from glnn.engine.steps import FitState, Steps, predict_probabilities, with_structure
from glnn.engine.tasks import LiteralTask
from glnn.exceptions import GlnnError, InputError
from glnn.solver import Certificate, NewRowProblem

# Memory

FIXED = 2**26  # bytes that a fit of any size takes


def estimate_bytes(problem: FitProblem, settings: FitSettings) -> int:
    r"""Return about how many bytes a fit takes at its peak, on top of its data.

    For the preset ``literal``, :math:`56\,n^2`: dense matrices in single precision. Otherwise a sum
    over nodes x (candidates and hidden units), given edges, and entries of the features. The
    factors were measured; see docs/reliability.md.
    """
    n_nodes, n_features = map(int, problem.features.shape)
    if settings.is_literal:
        return 56 * n_nodes * n_nodes
    graph = settings.tracks_for(problem.graph is not None)[0].graph
    n_stored = int(getattr(problem.features, "nnz", n_nodes * n_features))
    n_given = 0 if problem.graph is None else int(problem.graph.nnz)
    n_pairs = n_nodes * graph.n_candidates + n_given
    return FIXED + 200 * n_pairs + 64 * n_nodes * settings.head.n_hidden + 40 * n_stored


def check_memory(problem: FitProblem, settings: FitSettings) -> None:
    """Refuse a fit that needs more memory than is available."""
    free, needed = free_bytes(), estimate_bytes(problem, settings)
    if free is None or needed <= free:
        return
    way_out = (
        "Use preset 'default' or 'paper', which keep the graph sparse"
        if settings.is_literal
        else "Set n_candidates to fewer, or spread the fit over processes with torchrun"
    )
    raise InputError(
        f"this fit of {problem.features.shape[0]:,} nodes needs about {needed / 2**30:.1f} GB of "
        f"memory, got {free / 2**30:.1f} GB. {way_out}."
    )


def free_bytes() -> int | None:
    """Return the free memory of the machine or its container, or ``None`` if unknown."""
    try:
        free = int(Path("/proc/meminfo").read_text().split("MemAvailable:")[1].split()[0]) * 1024
    except (OSError, LookupError, ValueError):
        return None
    try:
        return min(free, int(Path("/sys/fs/cgroup/memory.max").read_text()))
    except (OSError, ValueError):  # no container, or no limit
        return free


# The fit


@dataclass(frozen=True)
class FitResult:
    """Everything a fit leaves."""

    model: Model
    weights: dict[str, float]  # of all tracks, those that were given up included
    history: History
    choices: dict[str, float | str]  # what the fit chose by itself
    certificate: Certificate | None = None  # None for the preset literal
    attribution: Attribution = None  # None for the preset literal and over several processes
    held_out: HeldOutLabels | None = None  # what the mixture says of labels hidden in folds


def fit_problem(
    problem: FitProblem,
    settings: FitSettings,
    *,
    seed: int,
    device: str = "cpu",
    callbacks: Sequence[Callback] = (),
    checkpoint: Path | None = None,
    shared: list[Steps] | None = None,
) -> FitResult:
    """Run the rounds of a preset, or the literal method, on one problem.

    Over several processes, each one calls it with its rows. ``checkpoint`` is a folder for the
    state after each round; a fit resumes from the state it finds there. Fits to the same features
    and graph with the same ``shared`` list compute what needs no label once.
    """
    if settings.is_literal and (problem.peers.size > 1 or checkpoint is not None):
        raise InputError(
            "the preset 'literal' must run in one process and without a checkpoint: it trains a "
            "dense matrix. Use 'default' or 'paper'."
        )
    settings = with_structure(settings, problem)
    run_everywhere(problem.peers, lambda: check_memory(problem, settings))
    with _explain_out_of_memory(device):
        if shared:
            steps = shared[0].for_fit(problem, settings, callbacks)
        else:
            steps = make_steps(problem, settings, seed=seed, device=device, callbacks=callbacks)
            if shared is not None:
                shared.append(steps)
        if settings.is_literal:
            return _fit_literal(steps)
        return _make_result(steps, _run_rounds(steps, checkpoint))


def make_steps(
    problem: FitProblem,
    settings: FitSettings,
    *,
    seed: int,
    device: str = "cpu",
    callbacks: Sequence[Callback] = (),
) -> Steps:
    """Scale the features and return the steps of a fit; labels play no part yet."""
    scaling = Scaling.fit(problem.features, settings.scaling, problem.peers, trims=settings.trims)
    return Steps(problem, settings, scaling, seed=seed, device=device, callbacks=callbacks)


def _run_rounds(steps: Steps, folder: Path | None) -> Mixture:
    rounds = Rounds(steps)
    if folder is None:
        return rounds.run(rounds.start())
    checkpoint = Checkpoint(folder, steps)
    return rounds.run(checkpoint.load() or rounds.start(), checkpoint.save)


def _make_result(steps: Steps, mixture: Mixture) -> FitResult:
    probabilities = mixture.probabilities
    shown = mixture.shown
    if shown is None:  # a graph is learned all the same, for the report and for new nodes
        learning = [track for track in steps.tracks if track.learns] or steps.tracks
        heaviest = max(learning, key=lambda track: mixture.all_weights[track.name])
        shown = steps.learn_graph_from(heaviest, probabilities)
    rows = _rows_for_heads_on_rows(steps, [*mixture.states, shown], probabilities)
    tracks = tuple(
        FittedTrack(
            state.track.name,
            weight,
            state.task.settings,
            state.task.module,
            state.adjacency,
            state.new_rows or rows[state.track.sees_graph],
            state.track.sees_graph,
            state.track.is_spectral,
        )
        for state, weight in zip(mixture.states, mixture.weights)
        if state.task is not None
    )
    return FitResult(
        _make_model(steps, tracks, shown.adjacency, probabilities, mixture.correction),
        mixture.all_weights,
        steps.history,
        summarize_choices(steps.problem, mixture, shown),
        shown.certificate,
        shown.attribution,
        mixture.held_out,
    )


def _make_model(
    steps: Steps,
    tracks: tuple[FittedTrack, ...],
    adjacency: Any,
    probabilities: np.ndarray,
    correction: np.ndarray | None = None,
) -> Model:
    return Model(
        steps.settings,
        steps.scaling,
        tracks,
        correction,
        adjacency,
        None if steps.given is None else steps.given.prior,
        probabilities,
        steps.scaled,
        digest_rows(steps.problem.features),
        steps.structure,
        steps.partition,
    )


def _rows_for_heads_on_rows(
    steps: Steps, states: Sequence[FitState], probabilities: np.ndarray
) -> dict[bool, NewRowProblem | None]:
    """Return how new nodes find links, for tracks that see the given graph and for the others.

    A head on rows learns no graph: it takes the rule of a track that does, or, if none with the
    same source of the graph is left, that of a graph learned from the predictions.
    """
    rows: dict[bool, NewRowProblem | None] = {
        s.track.sees_graph: s.new_rows for s in states if s.new_rows is not None
    }
    for state in states:
        if state.track.sees_graph not in rows:
            learned = steps.learn_graph_from(state.track, probabilities)
            rows[state.track.sees_graph] = learned.new_rows
    return rows


@contextmanager
def _explain_out_of_memory(device: str) -> Iterator[None]:
    """Turn out-of-memory errors into a :class:`GlnnError` with advice."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        words = ("can't allocate memory", "not enough memory")
        is_full = isinstance(error, MemoryError | torch.cuda.OutOfMemoryError)
        if not is_full and not any(text in str(error) for text in words):
            raise
        other = "spread the fit over processes" if device == "cpu" else "take device='cpu'"
        raise GlnnError(
            f"the device {device!r} has too little memory for this fit "
            f"({' '.join(str(error).split())[:120]}). "
            f"Set n_candidates to fewer, or {other}."
        ) from None


def summarize_choices(
    problem: FitProblem, mixture: Mixture, shown: FitState
) -> dict[str, float | str]:
    """Return in words what the fit chose by itself.

    ``mixture`` are the tracks with their weights, ``given graph`` how far it is trusted, ``learned
    graph`` the track that learned the graph that is shown.
    """
    parts = zip(mixture.states, mixture.weights)
    choices: dict[str, float | str] = {
        "mixture": ", ".join(f"{state.track.name} {weight:.0%}" for state, weight in parts)
    }
    if mixture.correction is not None and problem.validation is not None:
        n_labels = len(problem.validation)
        choices["class correction"] = f"fitted to {n_labels} validation labels"
    if problem.graph is not None:
        trust = sum(w for s, w in zip(mixture.states, mixture.weights) if s.track.sees_graph)
        choices["given graph"] = f"trusted to {trust:.0%}"
    origin = f"that of the track {shown.track.name}"
    if mixture.shown is None:
        origin += ", which has no weight: the learned graph did not help"
    choices |= {"learned graph": origin, "signal": shown.track.graph.signal}
    return choices | {"n_rounds": shown.round}


def _fit_literal(steps: Steps) -> FitResult:
    """Train graph and network together, as printed in the paper."""
    problem, settings, device = steps.problem, steps.settings, steps.features.device
    prior = None if steps.given is None else steps.given.prior
    task = LiteralTask(
        steps.features,
        problem.labels,
        settings.head,
        LiteralTask.build_objective(steps.signal, prior, settings.graph, device),
        init=make_generator(steps.seed, 1, 0),
        noise=make_generator(steps.seed, 1, 1, device=device),
    )
    steps.train(task, "literal", settings.head)
    with torch.no_grad():
        dense = task.adjacency().to_dense().clamp_min(0).double().cpu().numpy()
    network: Any = task.module
    track = steps.tracks[0]
    graph = sp.csr_matrix(np.maximum(dense, dense.T))
    fitted = FittedTrack(
        track.name, 1.0, track.head, network["network"], graph, None, track.sees_graph
    )
    model = _make_model(steps, (fitted,), graph, predict_probabilities(task))
    return FitResult(model, {track.name: 1.0}, steps.history, {})
