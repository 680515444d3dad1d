"""The paper's equations, a class each."""

from glnn.objective.base import QuadraticTerm, Term
from glnn.objective.objective import READINGS, Objective, Reading, Weights

__all__ = ["READINGS", "Objective", "QuadraticTerm", "Reading", "Term", "Weights"]
