"""Graph step and classifier step in turn: predictions join the signals from the second round."""

import dataclasses
from collections.abc import Callable

import numpy as np

from glnn.engine.selection import competed, settled
from glnn.engine.steps import FitState, Solution, Steps, has_collapsed, is_better, is_worse
from glnn.objective import Weights

FEW_LABELS = 15
"""Below this many labels a class, predictions are believed with caution."""

MANY_LABELS = 50
"""From this many labels a class on, a plain network may do better than losses on predictions."""

_CLEAR_PROBE = 0.95
"""One source serves clearly better than another if its probe has at most this share of its loss."""

_BY_FAR = 0.87
"""Below this share of the features' probe a given graph is by far the better source."""

_NO_PAIRS = (np.empty(0, np.int64), np.empty(0, np.int64))


class Rounds:
    """The turns of one fit: what it chooses, keeps and undoes.

    Parameters
    ----------
    steps
        The steps that the rounds are made of.
    """

    def __init__(self, steps: Steps) -> None:
        self.steps = steps
        labels, validation = steps.problem.labels, steps.problem.validation
        _, *self._cautious = steps.settings.heads(validation is not None)
        self._has_validation = validation is not None
        self._labels_per_class = len(labels) / labels.n_classes

    def run(
        self, state: FitState, after_round: Callable[[FitState], None] | None = None
    ) -> FitState:
        """Take the rounds that are left; a round that harms is undone and the last.

        ``after_round`` is called with the state after each.
        """
        while state.round == 0 or state.round < state.n_rounds:
            before = state.round
            state = self.first_round(state) if state.round == 0 else self.later_round(state)
            if state.round > before:
                self.steps.tell_of_round(state)
            if after_round is not None:
                after_round(state)
        return settled(self.steps, state)

    def first_round(self, state: FitState) -> FitState:
        """Choose source, signal and head while features and labels are all that is known."""
        if not self._has_validation:
            state = self._following_labels(state)
        state = self.steps.graph_step(state.next_round())
        if state.given is not None and self.steps.settings.doubts_graph:
            state = self._doubting_graph(state)
        state = self.steps.classifier_step(state)
        if self._has_validation:
            state = self._with_best_signal(state)
            state = self._with_best_head(state)
        if self.steps.settings.rivals(self._has_validation) and self._can_judge():
            state = competed(self.steps, state)
        if state.learned is None and state.n_rounds == 1:
            state = self._learning_nothing(state)
        return state

    def later_round(self, before: FitState) -> FitState:
        """Solve and train with what the round before has taught.

        Losses on predictions can drive all nodes into few classes. Where validation nodes show
        such a collapse, the most cautious head is trained on the new graph instead. A round whose
        loss and accuracy on them are both worse than before is undone.
        """
        state = self._with_best_closeness(before, self._round_after(before))
        if not is_worse(state.trained, before.trained):
            return state
        if before.learned is None:
            before = self._learning_nothing(before)
        return before.changed(n_rounds=before.round)

    def _round_after(self, before: FitState, like: FitState | None = None) -> FitState:
        """Solve and train; a network that has collapsed is trained again with all caution.

        ``like`` is what another try has ended with, which has searched for the same candidates.
        """
        solved = self.steps.graph_step(before.next_round(), like)
        state = self.steps.classifier_step(solved)
        if self._cautious and has_collapsed(state.trained, before.trained):
            state = self.steps.classifier_step(solved.changed(head=self._cautious[-1]))
        return state

    def _with_best_closeness(self, before: FitState, state: FitState) -> FitState:
        """In the second round try lower degrees of closeness, while each is clearly better."""
        if not self._has_validation or state.round != 2 or state.doubt <= _BY_FAR:
            return state
        for closeness in state.graph.dial:
            weights = before.graph.weights
            if closeness < state.graph.weights.closeness:
                graph = dataclasses.replace(
                    before.graph, weights=weights.replace(closeness=closeness)
                )
                tried = self._round_after(before.changed(graph=graph), like=state)
                if _better(tried, state) is state:
                    return state
                state = tried
        return state

    def _following_labels(self, state: FitState) -> FitState:
        """Without validation nodes the number of labels decides.

        With few, nothing tells whether predictions are right: the cautious head is taken, and
        where there is no given graph to hold them in place, they stay out of the graph problem.
        """
        if not self._cautious or not self._has_few_labels():
            return state
        n_rounds = state.n_rounds if state.given is not None else 1
        return state.changed(head=self._cautious[-1], n_rounds=n_rounds)

    def _doubting_graph(self, state: FitState) -> FitState:
        """Let probes say how far to trust the given graph.

        Where features alone serve clearly better it is left, where it serves clearly better than
        they do the learned graph stays closer to it. Weights without a ridge have no answer
        without the graph, and few labels without validation nodes prove nothing: then there is
        nothing to doubt.
        """
        alone = self.steps.settings.no_graph
        is_proven = self._has_validation or not self._has_few_labels()
        if alone.weights.ridge == 0 or not is_proven:
            return state
        given = self.steps.probe(state)
        without = self.steps.graph_step(state.restarted(alone, None))
        features = self.steps.probe(without)
        if features <= _CLEAR_PROBE * given:
            return without.changed(n_rounds=alone.n_rounds)
        state = state.changed(doubt=given / features)
        closeness = state.graph.trusted_closeness
        if closeness is None or given > _CLEAR_PROBE * features:
            return state
        weights = state.graph.weights.replace(closeness=closeness)
        return state.changed(graph=dataclasses.replace(state.graph, weights=weights))

    def _with_best_signal(self, state: FitState) -> FitState:
        """Try other signals of bags of words, where there is no graph to go by."""
        if not self.steps.has_words or state.given is not None:
            return state
        for signal in state.graph.signals:
            if signal != self.steps.settings.no_graph.signal:
                graph = dataclasses.replace(state.graph, signal=signal)
                tried = self.steps.graph_step(state.restarted(graph, None))
                state = _better(self.steps.classifier_step(tried), state)
        return state

    def _with_best_head(self, state: FitState) -> FitState:
        """Let validation nodes choose the head where labels are few, or where they are many."""
        heads = list(self._cautious) if self._has_few_labels() else []
        plain = self.steps.settings.plain
        if plain is not None and self._labels_per_class >= MANY_LABELS:
            heads = [plain]
        for head in heads:
            if head != state.head:
                state = _better(self.steps.classifier_step(state.changed(head=head)), state)
        return state

    def _learning_nothing(self, state: FitState) -> FitState:
        """Take the prior graph for the learned one: the optimum where closeness alone counts."""
        weights = Weights.closeness_alone()
        graph = dataclasses.replace(state.graph, weights=weights, n_neighbors=None, metric="fixed")
        state = state.changed(graph=graph)
        learned = self.steps.solve(state, candidates=_NO_PAIRS, support="candidates")
        return state.changed(learned=Solution.of(learned), new_rows=learned.new_rows)

    def _can_judge(self) -> bool:
        """Whether validation nodes, or labels that are hidden in turn, may judge competitors."""
        if self._has_validation:
            return True
        selection = self.steps.settings.selection
        if selection == "auto":
            return self.steps.problem.graph is not None and not self._has_few_labels()
        return selection == "folds"

    def _has_few_labels(self) -> bool:
        return self._labels_per_class < FEW_LABELS


def _better(tried: FitState, kept: FitState) -> FitState:
    """Return the state that was tried if its validation loss is clearly lower."""
    assert tried.trained is not None  # it was just trained
    return tried if is_better(tried.trained, kept.trained) else kept
