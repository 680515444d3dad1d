"""Which rows a session proposes next and why, and the cards that show a row."""

from typing import Any

import numpy as np

from glnn.report.columns import RowColumn
from glnn.report.text import format_count
from glnn.studio.journal import LabelState
from glnn.studio.learning import CHECKED, FULL, Answer

_N_RANKED, _N_NUMBERS = 16, 6_000_000  # most rows ranked ahead, and numbers to work through
_N_BETWEEN = 4  # acts on other rows before the next second look at a label
_N_NEIGHBOURS = 8


class Proposals:
    """Rows to label next by the last answer, kept up to date while labels come in.

    The rows ranked ahead stay right while the first of them is labelled, because each was chosen
    as if those before it were labelled. After any other act they are ranked again, updated by an
    outer product for each new label.
    """

    def __init__(
        self, ids: list[str], rows: dict[str, int], columns: tuple[RowColumn, ...], answer: Answer
    ) -> None:
        self._ids, self._rows, self._columns = ids, rows, columns
        self._suspects: dict[str, tuple[str, str, float]] = {}  # given, predicted, probability
        self._n_since = _N_BETWEEN  # acts since the last second look
        self.set_answer(answer)

    def set_answer(self, answer: Answer) -> None:
        """Propose by another answer from now on; quick fits have no suspect labels."""
        self.answer, self._queue = answer, list[int]()
        if answer.kind in (CHECKED, FULL):
            results, self._suspects = answer.results, {}
            names, best = results.class_names, results.predictions
            for k in results.suspects:
                share = float(results.probabilities[k, best[k]])
                self._suspects[self._ids[k]] = names[results.labels[k]], names[best[k]], share

    def note_act(self, name: str, row: str | None) -> None:
        """Take an act on a row into account."""
        self._n_since = 0 if row in self._suspects else self._n_since + 1
        is_first = name == "label" and self._queue[:1] == [self._rows.get(row or "")]
        self._queue = self._queue[1:] if is_first else []

    def choose(self, state: LabelState, k: int) -> list[dict[str, Any]]:
        """Return the cards of the ``k`` rows to act on next, the best first."""
        looks = [
            row
            for row, (given, _, _) in self._suspects.items()
            if state.labels.get(row) == given and row not in state.looked
        ]
        found = []
        if looks and k and self._n_since >= _N_BETWEEN:
            given, predicted, share = self._suspects[looks[0]]
            reason = (
                f"A second look: its label is {given}, but a fit without it predicts {predicted} "
                f"({100 * share:.0f} %). Change it, or keep it."
            )
            found.append(self.card(state, looks[0], "second look", reason))
        kind = "suggested" if self.answer.has_predictions else "diverse"
        for row in self._rank(state, k - len(found)):
            found.append(self.card(state, self._ids[row], kind, self._reason(row, state)))
        for name in list(state.skipped)[: k - len(found)]:
            reason = "You skipped it before, and no other row is left."
            found.append(self.card(state, name, "skipped", reason))
        return found

    def _rank(self, state: LabelState, k: int) -> list[int]:
        """Return the best rows without a label."""
        is_open = np.ones(len(self._ids), dtype=bool)
        for names in (state.labels, state.skipped, state.unsure):
            is_open[[self._rows[name] for name in names]] = False
        if len(self._queue) < min(k, int(is_open.sum())):
            ranking = self.answer.ranking
            ranking.set_labelled({self._rows[name] for name in state.labels})
            n_ahead = max(k, min(_N_RANKED, _N_NUMBERS // max(1, ranking.size)))
            self._queue = ranking.select(np.flatnonzero(is_open), n_ahead)[0].tolist()
        return self._queue[:k]

    def _reason(self, row: int, state: LabelState) -> str:
        if not self.answer.has_predictions:
            return "It resembles the most rows about which nothing is known yet."
        pairs = self._probabilities(row)
        classes = " or ".join(f"{name} ({100 * share:.0f} %)" for name, share in pairs[:2])
        ends = self._neighbours(row)[0]
        n_open = sum(self._ids[end] not in state.labels for end in ends)
        links = f"{format_count(len(ends), 'link')}, {n_open:,} to rows without a label"
        return f"Its label would reduce the uncertainty most. Now predicted {classes}; {links}."

    def card(self, state: LabelState, name: str, kind: str, reason: str) -> dict[str, Any]:
        """Return what there is to show of a row; see :meth:`LabelSession.act`."""
        row = self._rows[name]
        pairs, (ends, weights) = self._probabilities(row), self._neighbours(row)
        near = [
            {
                "id": self._ids[end],
                "weight": float(weight),
                "label": state.labels.get(self._ids[end]),
                "predicted": self._predicted(end),
            }
            for end, weight in zip(ends[:_N_NEIGHBOURS].tolist(), weights)
        ]
        return {
            "id": name,
            "row": row,
            "kind": kind,
            "reason": reason,
            "values": [[column.name, _cell(column, row)] for column in self._columns],
            "status": state.status(name),
            "label": state.labels.get(name),
            "predicted": self._predicted(row),
            "probabilities": pairs,
            "neighbours": near,
        }

    def _probabilities(self, row: int) -> list[tuple[str, float]]:
        if not self.answer.has_predictions:
            return []
        results = self.answer.results
        shares = results.probabilities[row]
        order = np.argsort(-shares, kind="stable").tolist()
        return [(results.class_names[k], float(shares[k])) for k in order]

    def _predicted(self, row: int) -> str | None:
        pairs = self._probabilities(row)
        return pairs[0][0] if pairs else None

    def _neighbours(self, row: int) -> tuple[np.ndarray, np.ndarray]:
        """Return neighbours of a row in the learned graph and their weights, heaviest first."""
        graph = self.answer.results.adjacency
        part = slice(graph.indptr[row], graph.indptr[row + 1])
        ends, weights = graph.indices[part], graph.data[part]
        order = np.argsort(-weights, kind="stable")
        order = order[ends[order] != row]
        return ends[order], weights[order]


def _cell(column: RowColumn, row: int) -> str:
    texts, index = column.pick(np.array([row])).texts()
    return texts[int(index[0])] if index[0] >= 0 else ""
