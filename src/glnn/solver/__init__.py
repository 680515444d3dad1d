"""Exact graph learning: minimises the objective over symmetric non-negative graphs."""

from glnn.solver.certificate import Certificate, certify
from glnn.solver.learn import SUPPORTS, LearnedGraph, Support, learn_graph
from glnn.solver.new_rows import NewRowProblem
from glnn.solver.signals import FeatureSignal

__all__ = [
    "SUPPORTS",
    "Certificate",
    "FeatureSignal",
    "LearnedGraph",
    "NewRowProblem",
    "Support",
    "certify",
    "learn_graph",
]
