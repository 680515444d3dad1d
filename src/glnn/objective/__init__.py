"""The paper's loss for graph learning: one class for each term, and their weighted sum."""

from glnn.objective.base import QuadraticTerm, Term
from glnn.objective.objective import READINGS, Objective, Reading, Weights

__all__ = ["READINGS", "Objective", "QuadraticTerm", "Reading", "Term", "Weights"]
