"""One fit from features and labels to a graph and a trained network."""

import dataclasses
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch

from glnn.engine.callbacks import Callback
from glnn.engine.checkpoint import Checkpoint
from glnn.engine.classifier import ClassifierTask
from glnn.engine.history import History
from glnn.engine.literal import LiteralTask
from glnn.engine.memory import check_memory, is_out_of_memory
from glnn.engine.problem import FitProblem
from glnn.engine.rounds import Rounds
from glnn.engine.row_task import RowTask
from glnn.engine.scaling import Scaling
from glnn.engine.seeding import generator_for
from glnn.engine.settings import FitSettings
from glnn.engine.state import FitState
from glnn.engine.steps import Steps
from glnn.engine.structured import with_structure
from glnn.engine.trained import probabilities_of
from glnn.exceptions import GlnnError, InputError
from glnn.graph.structure import Structure
from glnn.peers import Partition
from glnn.peers.group import agreed
from glnn.solver import Certificate, LearnedGraph, NewRowProblem
from glnn.solver.shares import LinkShares


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
