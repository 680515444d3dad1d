"""Graph step and classifier step in turn: predictions join the signals from the second round."""

import dataclasses
from typing import Any

import numpy as np
import scipy.sparse as sp

from glnn.engine.probe import probe_loss
from glnn.engine.settings import GraphSettings
from glnn.engine.steps import Steps
from glnn.engine.trained import has_collapsed, is_better, is_worse
from glnn.objective import Weights

FEW_LABELS = 15
"""Below so many labels a class, predictions are believed with caution."""

MANY_LABELS = 50
"""From so many labels a class on, a plain network may do better than losses on predictions."""

_CLEAR_PROBE = 0.95
"""One source serves clearly better than another if its probe has at most this share of its loss."""

_NO_PAIRS = (np.empty(0, np.int64), np.empty(0, np.int64))


class Rounds(Steps):
    """The turns of one fit: what it chooses, keeps and undoes."""

    def run(self) -> None:
        """Take all rounds: choices are made in the first, a round that harms is the last."""
        self.first_round()
        for number in range(2, self.n_rounds + 1):
            if not self.later_round(number):
                self.n_rounds = number - 1
                break

    def first_round(self) -> None:
        """Choose source, signal and head while features and labels are all that is known."""
        validation = self.problem.validation
        if validation is None:
            self._follow_labels()
        self.adjacency = self.graph_step(1)
        if self.given is not None and self.settings.doubts_graph:
            self._doubt_graph()
        self.trained = self.classifier_step(1, self.head)
        if validation is None:
            return
        if self.has_words and self.given is None:
            for signal in self.graph.signals:
                if signal != self.settings.no_graph.signal:
                    self._try(dataclasses.replace(self.graph, signal=signal))
        self._try_heads()

    def _doubt_graph(self) -> None:
        """Let probes say how far to trust the given graph.

        Where features alone serve clearly better it is left, where it serves clearly better than
        they do the learned graph stays closer to it. Weights without a ridge have no answer
        without the graph, and few labels without validation nodes prove nothing: then there is
        nothing to doubt.
        """
        alone = self.settings.no_graph
        proven = self.problem.validation is not None or not self._has_few_labels()
        if alone.weights.ridge == 0 or not proven:
            return
        before, given = self._state(), self._probe()
        self._take(alone, None)
        features = self._probe()
        if features <= _CLEAR_PROBE * given:
            self.n_rounds = self.graph.n_rounds
            return
        self._restore(before)
        closeness = self.graph.trusted_closeness
        if closeness is not None and given <= _CLEAR_PROBE * features:
            weights = self.graph.weights.replace(closeness=closeness)
            self.graph = dataclasses.replace(self.graph, weights=weights)

    def _probe(self) -> float:
        problem = self.problem
        return probe_loss(
            self.adjacency,
            self.scaled,
            problem.labels,
            problem.validation,
            self.seed,
            device=self.features.device,
        )

    def later_round(self, number: int) -> bool:
        """Solve and train with what the round before has taught; tell whether it was kept.

        Losses on predictions can drive all nodes into few classes. Where validation nodes show
        such a collapse, the most cautious head is trained on the new graph instead. A round whose
        loss and accuracy on them are both worse than before is undone.
        """
        before, trained = self._state(), self.trained
        self.adjacency = self.graph_step(number)
        self.trained = self.classifier_step(number, self.head)
        if self.cautious and has_collapsed(self.trained, trained):
            self.head = self.cautious[-1]
            self.trained = self.classifier_step(number, self.head)
        if not is_worse(self.trained, trained):
            return True
        self._restore(before)
        if self.learned is None:
            self._learn_nothing(number)
        return False

    def _learn_nothing(self, number: int) -> None:
        """Take the prior graph for the learned one: the optimum where closeness alone counts."""
        self.graph = dataclasses.replace(
            self.graph, weights=Weights.closeness_alone(), n_neighbors=None, metric="fixed"
        )
        self.learned = self.solve(number, candidates=_NO_PAIRS, support="candidates")
        self.rows = self.learned.new_rows

    def _try(self, graph: GraphSettings) -> None:
        """Take the first round with other settings; go back unless it is clearly better."""
        before, kept = self._state(), self.trained
        self._take(graph, self.given)
        tried = self.classifier_step(1, self.head)
        if is_better(tried, kept):
            self.trained = tried
        else:
            self._restore(before)

    def _take(self, graph: GraphSettings, given: sp.csr_matrix | None) -> None:
        self.graph, self.given = graph, given
        self.learned = self.rows = self.trained = None
        self.adjacency = self.graph_step(1)

    def _state(self) -> dict[str, Any]:
        names = ("graph", "given", "learned", "rows", "adjacency", "trained", "head")
        return {name: getattr(self, name) for name in names}

    def _restore(self, state: dict[str, Any]) -> None:
        for name, value in state.items():
            setattr(self, name, value)

    def _has_few_labels(self) -> bool:
        return self._labels_per_class() < FEW_LABELS

    def _labels_per_class(self) -> float:
        labels = self.problem.labels
        return len(labels) / labels.n_classes

    def _follow_labels(self) -> None:
        """Without validation nodes the number of labels decides.

        With few, nothing tells whether predictions are right: the cautious head is taken, and
        where there is no given graph to hold them in place, they stay out of the graph problem.
        """
        if self.cautious and self._has_few_labels():
            self.head = self.cautious[-1]
            self.n_rounds = self.n_rounds if self.given is not None else 1

    def _try_heads(self) -> None:
        """Let validation nodes choose the head where labels are few, or where they are many."""
        heads = list(self.cautious) if self._has_few_labels() else []
        if self.settings.plain is not None and self._labels_per_class() >= MANY_LABELS:
            heads = [self.settings.plain]
        for head in heads:
            if head != self.head:
                tried = self.classifier_step(1, head)
                if is_better(tried, self.trained):
                    self.head, self.trained = head, tried
