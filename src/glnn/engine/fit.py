"""One fit from features and labels to a graph and a trained network."""

import dataclasses
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch

from glnn.engine.callbacks import Callback
from glnn.engine.classifier import ClassifierTask
from glnn.engine.history import History
from glnn.engine.literal import LiteralTask
from glnn.engine.problem import FitProblem
from glnn.engine.rounds import Rounds
from glnn.engine.scaling import Scaling
from glnn.engine.seeding import generator_for
from glnn.engine.settings import FitSettings
from glnn.engine.trained import probabilities_of
from glnn.exceptions import GlnnError
from glnn.graph.prior import prior_graph
from glnn.solver import LearnedGraph, NewRowProblem


@dataclass(frozen=True)
class FitResult:
    """What a fit leaves: the graph with its proof, the network, and how it came about.

    ``settings.head`` is the head that was taken, ``scaled`` the scaled features. ``rows`` is the
    one-row problem of new nodes, ``None`` for the preset ``literal``. ``choices`` is what the fit
    chose by itself.
    """

    settings: FitSettings
    scaling: Scaling
    scaled: Any
    adjacency: sp.csr_matrix
    prior: sp.csr_matrix | None
    learned: LearnedGraph | None
    rows: NewRowProblem | None
    task: ClassifierTask | LiteralTask
    probabilities: np.ndarray
    history: History
    choices: dict[str, float | str]

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
) -> FitResult:
    """Run the rounds of a preset, or the literal method, on one problem."""
    scaling = Scaling.fit(problem.features, settings.scaling)
    with _told_if_full(device):
        rounds = Rounds(problem, settings, scaling, seed=seed, device=device, callbacks=callbacks)
        if settings.is_literal:
            return _fit_literal(rounds, settings, scaling)
        rounds.run()
    assert rounds.learned is not None and rounds.trained is not None
    return FitResult(
        dataclasses.replace(settings, head=rounds.head),
        scaling,
        rounds.scaled,
        rounds.adjacency,
        rounds.learned.prior,
        rounds.learned,
        rounds.rows,
        rounds.trained.task,
        rounds.trained.probabilities,
        rounds.history,
        choices_of(rounds),
    )


@contextmanager
def _told_if_full(device: str) -> Iterator[None]:
    """Say in one line that a device has too little memory."""
    try:
        yield
    except torch.cuda.OutOfMemoryError as error:
        raise GlnnError(
            f"the device {device!r} has too little memory for this fit "
            f"({' '.join(str(error).split())[:120]}). "
            "Set n_candidates to fewer, or take device='cpu'."
        ) from None


def choices_of(rounds: Rounds) -> dict[str, float | str]:
    """Return what the rounds chose by themselves."""
    assert rounds.trained is not None  # they have been run
    return {
        "source": _source(rounds),
        "signal": rounds.graph.signal,
        "gate": rounds.trained.task.gate,
        "closeness": rounds.graph.weights.closeness,
        "n_steps": rounds.head.n_steps,
        "n_rounds": rounds.n_rounds,
    }


def _source(rounds: Rounds) -> str:
    """Return what the graph was learned from: ``given``, ``features`` in spite of it, ``none``."""
    if rounds.problem.graph is None:
        return "none"
    return "features" if rounds.given is None else "given"


def _fit_literal(rounds: Rounds, settings: FitSettings, scaling: Scaling) -> FitResult:
    """Train graph and network together, as the paper prints it."""
    problem, device = rounds.problem, rounds.features.device
    prior = None if problem.graph is None else prior_graph(problem.graph, settings.graph.prior)  # type: ignore[arg-type]
    task = LiteralTask(
        rounds.features,
        problem.labels,
        settings.head,
        LiteralTask.objective(rounds.signal, prior, settings.graph, device),
        init=generator_for(rounds.seed, 1, 0),
        noise=generator_for(rounds.seed, 1, 1, device=device),
    )
    rounds.train(task, "literal", settings.head)
    with torch.no_grad():
        dense = task.adjacency().to_dense().clamp_min(0).double().cpu().numpy()
    return FitResult(
        settings,
        scaling,
        rounds.scaled,
        sp.csr_matrix(np.maximum(dense, dense.T)),
        prior,
        None,
        None,
        task,
        probabilities_of(task),
        rounds.history,
        {},
    )
