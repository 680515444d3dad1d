"""The rounds of a fit in one of several processes."""

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from glnn.engine.callbacks import Callback
from glnn.engine.probe import loss_of_rows, probed_nodes
from glnn.engine.problem import FitProblem
from glnn.engine.rounds import Rounds
from glnn.engine.scaling import Scaling
from glnn.engine.seeding import generator_for
from glnn.engine.settings import FitSettings, HeadSettings
from glnn.exceptions import InputError
from glnn.graph.prior import prior_graph
from glnn.nn.features import Features
from glnn.parallel.features import FeatureRows
from glnn.parallel.graph_step import GraphInputs, LearnedRows, learn_rows
from glnn.parallel.labels import LabelRows, ValidationRows
from glnn.parallel.probe import spread_features
from glnn.parallel.task import RowsTask
from glnn.peers import Partition, Peers


@dataclass(frozen=True, eq=False)
class TakenRows:
    """One process's part of a problem.

    Parameters
    ----------
    partition
        Which rows it has.
    problem
        The problem with its rows alone; ``graph`` holds its rows of the prior graph.
    scaling
        The scaling of the features of all rows.
    degrees
        Row sums of the whole given graph, or ``None``.
    """

    partition: Partition
    problem: FitProblem
    scaling: Scaling
    degrees: np.ndarray | None

    @classmethod
    def of(cls, peers: Peers, load: Callable[[], FitProblem], settings: FitSettings) -> "TakenRows":
        """Load the whole problem, keep this process's rows, and let go of the rest."""
        if settings.is_literal:
            raise InputError(
                "the preset 'literal' must run in one process: it trains a dense matrix. "
                "Use 'default' or 'paper'."
            )
        whole = load()
        partition = Partition(whole.features.shape[0], peers)
        scaling = Scaling.fit(whole.features, settings.scaling)
        prior, degrees, validation = None, None, None
        if whole.graph is not None:
            prior = prior_graph(whole.graph, settings.graph.prior)[partition.rows]  # type: ignore[arg-type]
            degrees = np.asarray(whole.graph.sum(1)).ravel()
        if whole.validation is not None:
            validation = ValidationRows.of(whole.validation, partition)
        features = whole.features[partition.rows].copy()  # a view would keep the whole alive
        labels = LabelRows(whole.labels, partition)
        problem = FitProblem(features, labels, prior, validation)
        return cls(partition, problem, scaling, degrees)


class RowsRounds(Rounds):
    """The state of one fit in one process; what it decides, all decide alike."""

    def __init__(
        self,
        taken: TakenRows,
        settings: FitSettings,
        *,
        seed: int,
        device: str,
        callbacks: Sequence[Callback],
    ) -> None:
        self.taken, self.partition = taken, taken.partition
        self.peers = self.partition.peers
        self.n_done = 0
        super().__init__(
            taken.problem, settings, taken.scaling, seed=seed, device=device, callbacks=callbacks
        )

    def features_of(self, scaled: Any, device: str) -> Features:
        """Return the scaled features of the rows that are here."""
        return FeatureRows.of_rows(scaled, self.partition, device)

    def run(self, after_round: Callable[["RowsRounds"], None] | None = None) -> None:
        """Take the rounds that are left; ``after_round`` is called after each."""
        while self.n_done == 0 or self.n_done < self.n_rounds:
            if self.n_done == 0:
                self.first_round()
            elif not self.later_round(self.n_done + 1):
                self.n_rounds = self.n_done
                break
            self.n_done += 1
            if after_round is not None:
                after_round(self)

    def graph_step(self, number: int) -> sp.csr_matrix:
        """Solve for the graph with the other processes; return the rows that are here."""
        graph, given = self.graph, self.given
        takes_prior = graph.first_graph == "prior" and self.n_rounds > 1
        if given is not None and number == 1 and takes_prior:
            return given
        return super().graph_step(number)

    def solve(self, number: int, **more: Any) -> Any:  # noqa: D102
        graph = dataclasses.replace(self.graph, support=more.pop("support"))
        inputs = GraphInputs(self.signal, self.given, **more)
        with self._stage(f"graph {number}"):
            return learn_rows(self.partition, inputs, graph)

    def _probe(self) -> float:
        problem, rank0 = self.problem, self.peers.broadcast
        assert isinstance(problem.labels, LabelRows)
        validation = problem.validation
        assert validation is None or isinstance(validation, ValidationRows)
        whole = None if validation is None else validation.whole
        nodes, classes, n_known = probed_nodes(problem.labels.whole, whole, self.seed)
        rows = spread_features(self.partition, self.adjacency, self.scaled, nodes)
        return rank0(loss_of_rows(rows, np.eye(problem.labels.n_classes)[classes], n_known))

    def learned_rows(self) -> LearnedRows:
        """Return what the last graph step left here."""
        assert isinstance(self.learned, LearnedRows)  # there was one
        return self.learned

    def task_of(self, number: int, head: HeadSettings) -> RowsTask:
        """Return a fresh network on the graph of this round."""
        labels = self.problem.labels
        assert isinstance(labels, LabelRows)  # this class makes no others
        assert isinstance(self.features, FeatureRows)
        return RowsTask(
            self.partition,
            self.adjacency,
            self.features,
            labels,
            head,
            init=generator_for(self.seed, number, 0),
            noise=generator_for(self.seed, number, 1, device=self.features.device),
        )

    def settings_taken(self) -> FitSettings:
        """Return the settings with the head that was chosen."""
        return dataclasses.replace(self.settings, head=self.head)
