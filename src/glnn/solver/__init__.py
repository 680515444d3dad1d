"""The exact graph step: the minimiser of the objective over symmetric non-negative graphs."""

from glnn.solver.candidates import nearest
from glnn.solver.certificate import Certificate, certify
from glnn.solver.learned import LearnedGraph
from glnn.solver.new_nodes import NewRows
from glnn.solver.problem import TaskTerm
from glnn.solver.signals import SIGNALS, FeatureSignal
from glnn.solver.solve import SUPPORTS, learn_graph

__all__ = [
    "SIGNALS",
    "SUPPORTS",
    "Certificate",
    "FeatureSignal",
    "LearnedGraph",
    "NewRows",
    "TaskTerm",
    "certify",
    "learn_graph",
    "nearest",
]
