"""Exact graph learning: minimises the objective over symmetric non-negative graphs."""

from glnn.solver.candidates import SEARCHES, Search
from glnn.solver.certificate import Certificate, certify
from glnn.solver.learn import SUPPORTS, LearnedGraph, Support, learn_graph
from glnn.solver.new_rows import NewLinks, NewRowProblem
from glnn.solver.signals import SIGNALS, FeatureSignal, SignalKind

__all__ = [
    "SEARCHES",
    "SIGNALS",
    "SUPPORTS",
    "Certificate",
    "FeatureSignal",
    "LearnedGraph",
    "NewLinks",
    "NewRowProblem",
    "Search",
    "SignalKind",
    "Support",
    "certify",
    "learn_graph",
]
