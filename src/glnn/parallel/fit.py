"""One fit over several processes, from loading to the model in process 0."""

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from torch import nn

from glnn.engine.callbacks import Callback
from glnn.engine.fit import choices_of
from glnn.engine.history import History
from glnn.engine.model import Model
from glnn.engine.problem import FitProblem
from glnn.engine.row_index import row_digests
from glnn.engine.scaling import Scaling
from glnn.engine.settings import FitSettings
from glnn.parallel.checkpoint import Checkpoint
from glnn.parallel.rounds import RowsRounds, TakenRows
from glnn.peers import Peers
from glnn.peers.group import agreed
from glnn.solver import Certificate, NewRowProblem
from glnn.solver.prior_rows import PriorRows


@dataclass(frozen=True)
class FitPlan:
    """How to fit: the same in every process."""

    settings: FitSettings
    seed: int
    device: str
    callbacks: Sequence[Callback] = ()


@dataclass(frozen=True, eq=False)
class FittedWhole:
    """What the processes found together, collected in process 0."""

    settings: FitSettings
    scaling: Scaling
    adjacency: sp.csr_matrix
    prior: sp.csr_matrix | None
    rows: NewRowProblem
    network: nn.Module
    probabilities: np.ndarray
    certificate: Certificate
    history: History
    choices: dict[str, float | str]

    def model(self, features: Any) -> Model:
        """Return the fitted model, given the features of all rows."""
        return Model(
            self.settings,
            self.scaling,
            self.adjacency,
            self.prior,
            self.probabilities,
            self.scaling.apply(features),
            row_digests(features),
            self.network,
            self.rows,
            self.choices["source"] == "features",
        )


def fit_rows(
    peers: Peers, load: Callable[[], FitProblem], plan: FitPlan, checkpoint: Path | None = None
) -> FittedWhole | None:
    """Fit with the other processes; return what was found in process 0, ``None`` elsewhere."""
    rounds = run_rows(peers, load, plan, checkpoint)
    return collected(rounds)


def run_rows(
    peers: Peers, load: Callable[[], FitProblem], plan: FitPlan, checkpoint: Path | None = None
) -> RowsRounds:
    """Take this process's rows and run all rounds."""
    parts: list[TakenRows] = []
    agreed(peers, lambda: parts.append(TakenRows.of(peers, load, plan.settings)))
    rounds = RowsRounds(
        parts.pop(), plan.settings, seed=plan.seed, device=plan.device, callbacks=plan.callbacks
    )
    if checkpoint is None:
        rounds.run()
        return rounds
    store = Checkpoint(checkpoint, rounds)
    store.restore(rounds)
    rounds.run(after_round=store.save)
    return rounds


def collected(rounds: RowsRounds) -> FittedWhole | None:
    """Bring the parts of all processes together in process 0."""
    partition, learned = rounds.partition, rounds.learned_rows()
    assert rounds.rows is not None and rounds.trained is not None
    adjacency = partition.collected(rounds.adjacency)
    prior = None if learned.prior is None else partition.collected(learned.prior)
    signal = partition.collected(rounds.rows.signal)
    probabilities = partition.collected(rounds.trained.probabilities)
    if partition.peers.rank:
        return None
    prior_rows = None
    if prior is not None:
        assert rounds.taken.degrees is not None  # there was a given graph
        prior_rows = PriorRows(rounds.graph.prior, rounds.taken.degrees, prior)  # type: ignore[arg-type]
    return FittedWhole(
        rounds.settings_taken(),
        rounds.taken.scaling,
        adjacency,
        prior,
        dataclasses.replace(rounds.rows, signal=signal, prior=prior_rows),
        rounds.trained.task.module,
        probabilities,
        learned.certificate,
        rounds.history,
        choices_of(rounds),
    )
