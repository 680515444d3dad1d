"""What the graph step found in each round, kept while a fit runs."""

from collections.abc import Iterable

import scipy.sparse as sp

from glnn.engine.callbacks import Callback, Memory
from glnn.graph.sparse import SparseAdjacency
from glnn.report.page.data import Round
from glnn.solver import LearnedGraph


class GraphLog(Callback):
    """Keep the graph that every round ends with, and its objective term by term.

    Over several processes no one has the whole graph, and nothing is kept.
    """

    may_lag = True

    def __init__(self) -> None:
        self._solved: list[LearnedGraph] = []
        self.rounds: list[Round] = []

    def on_graph(self, number: int, learned: LearnedGraph) -> None:
        """Remember the answer until the round ends."""
        self._solved.append(learned)

    def on_round_end(self, number: int, adjacency: sp.csr_matrix) -> None:
        """Keep the graph; without terms where it is the prior graph, which nothing has solved."""
        own = [learned for learned in self._solved if learned.adjacency is adjacency]
        self._solved = []
        if adjacency.shape[0] == adjacency.shape[1]:
            terms = objective_terms(own[-1]) if own else {}
            self.rounds.append(Round(f"round {number}", adjacency, terms))

    def memory(self) -> Memory:
        """Return the rounds, so that a fit that goes on from a checkpoint has them all."""
        return {one.name: (one.graph, one.terms) for one in self.rounds}

    def recall(self, memory: Memory) -> None:
        """Take back the rounds before an interruption."""
        self.rounds = [Round(name, *kept) for name, kept in memory.items()]


def objective_terms(learned: LearnedGraph) -> dict[str, float]:
    """Return the weighted value of each term that counts."""
    problem = learned.problem
    graph = SparseAdjacency.from_scipy(learned.adjacency)
    return {term.name: float(term.weight * term.value(graph)) for term in problem.terms}


def logged_rounds(callbacks: Iterable[Callback] | None) -> tuple[Round, ...]:
    """Return what the log among the callbacks of a fit has kept."""
    logs = [callback for callback in callbacks or () if isinstance(callback, GraphLog)]
    return tuple(logs[0].rounds) if logs else ()
