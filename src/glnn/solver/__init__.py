"""Exact graph learning: minimises the objective over symmetric non-negative graphs."""

from glnn.solver.certificate import Certificate, certify
from glnn.solver.learn import SUPPORTS, LearnedGraph, Support, learn_graph
from glnn.solver.new_rows import NewRowProblem
from glnn.solver.signals import SIGNALS, FeatureSignal, SignalKind

__all__ = [
    "SIGNALS",
    "SUPPORTS",
    "Certificate",
    "FeatureSignal",
    "LearnedGraph",
    "NewRowProblem",
    "SignalKind",
    "Support",
    "certify",
    "learn_graph",
]
