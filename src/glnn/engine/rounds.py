"""Graph step and classifier step in turn: predictions join the signals from the second round."""

import dataclasses
from collections.abc import Callable

import numpy as np

from glnn.engine.selection import compete, settle
from glnn.engine.steps import FitState, Solution, Steps, has_collapsed, is_better, is_worse
from glnn.objective import Weights

FEW_LABELS = 15  # per class: below this, cautious heads are used
MANY_LABELS = 50  # per class: from this on, a head without losses on predictions is tried
_CLEAR_PROBE = 0.95  # ratio of probe losses up to which one source is clearly better than another
_BY_FAR = 0.87  # ratio of probe losses up to which the given graph is by far the better source

_NO_PAIRS = (np.empty(0, np.int64), np.empty(0, np.int64))


class Rounds:
    """The rounds of one fit: choices in the first one, and undoing of rounds that harm."""

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
                self.steps.notify_round_end(state)
            if after_round is not None:
                after_round(state)
        return settle(self.steps, state)

    def first_round(self, state: FitState) -> FitState:
        """Choose source, signal and head while features and labels are all that is known."""
        if not self._has_validation:
            state = self._adapt_to_labels(state)
        state = self.steps.graph_step(state.next_round())
        if state.given is not None and self.steps.settings.doubts_graph:
            state = self._probe_graph(state)
        state = self.steps.classifier_step(state)
        if self._has_validation:
            state = self._with_best_signal(state)
            state = self._with_best_head(state)
        if self.steps.settings.competing_heads(self._has_validation) and self._can_judge():
            state = compete(self.steps, state)
        if state.learned is None and state.n_rounds == 1:
            state = self._take_prior(state)
        return state

    def later_round(self, before: FitState) -> FitState:
        """Solve and train with what the round before has taught.

        Losses on predictions can drive all nodes into few classes. Where validation nodes show
        such a collapse, the most cautious head is trained on the new graph instead. A round whose
        loss and accuracy on them are both worse than before is undone.
        """
        state = self._with_best_closeness(before, self._run_round(before))
        if not is_worse(state.trained, before.trained):
            return state
        if before.learned is None:
            before = self._take_prior(before)
        return before.replace(n_rounds=before.round)

    def _run_round(self, before: FitState, like: FitState | None = None) -> FitState:
        """Solve and train; a network that has collapsed is trained again with all caution.

        ``like`` is what another try has ended with, which has searched for the same candidates.
        """
        solved = self.steps.graph_step(before.next_round(), like)
        state = self.steps.classifier_step(solved)
        if self._cautious and has_collapsed(state.trained, before.trained):
            state = self.steps.classifier_step(solved.replace(head=self._cautious[-1]))
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
                tried = self._run_round(before.replace(graph=graph), like=state)
                if _better(tried, state) is state:
                    return state
                state = tried
        return state

    def _adapt_to_labels(self, state: FitState) -> FitState:
        """Without validation nodes the number of labels decides.

        With few labels, predictions cannot be checked: the cautious head is used, and without a
        given graph the predictions stay out of the graph problem.
        """
        if not self._cautious or not self._has_few_labels():
            return state
        n_rounds = state.n_rounds if state.given is not None else 1
        return state.replace(head=self._cautious[-1], n_rounds=n_rounds)

    def _probe_graph(self, state: FitState) -> FitState:
        """Use probes to decide how closely to follow the given graph.

        Where the features alone are clearly better, the given graph is dropped; where it is clearly
        better, the learned graph stays closer to it. Nothing changes if the weights have no ridge,
        which a fit without the graph needs, or if labels are few and there are no validation nodes.
        """
        alone = self.steps.settings.no_graph
        is_proven = self._has_validation or not self._has_few_labels()
        if alone.weights.ridge == 0 or not is_proven:
            return state
        given = self.steps.probe(state)
        without = self.steps.graph_step(state.restart(alone, None))
        features = self.steps.probe(without)
        if features <= _CLEAR_PROBE * given:
            return without.replace(n_rounds=alone.n_rounds)
        state = state.replace(doubt=given / features)
        closeness = state.graph.trusted_closeness
        if closeness is None or given > _CLEAR_PROBE * features:
            return state
        weights = state.graph.weights.replace(closeness=closeness)
        return state.replace(graph=dataclasses.replace(state.graph, weights=weights))

    def _with_best_signal(self, state: FitState) -> FitState:
        """Try other signals of bags of words, where there is no graph to go by."""
        if not self.steps.has_words or state.given is not None:
            return state
        for signal in state.graph.signals:
            if signal != self.steps.settings.no_graph.signal:
                graph = dataclasses.replace(state.graph, signal=signal)
                tried = self.steps.graph_step(state.restart(graph, None))
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
                state = _better(self.steps.classifier_step(state.replace(head=head)), state)
        return state

    def _take_prior(self, state: FitState) -> FitState:
        """Take the prior graph for the learned one: the optimum where closeness alone counts."""
        weights = Weights.closeness_alone()
        graph = dataclasses.replace(state.graph, weights=weights, n_neighbors=None, metric="fixed")
        state = state.replace(graph=graph)
        learned = self.steps.solve(state, candidates=_NO_PAIRS, support="candidates")
        return state.replace(learned=Solution.of(learned), new_rows=learned.new_rows)

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
