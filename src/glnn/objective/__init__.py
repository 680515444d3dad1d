"""The paper's equations."""

from glnn.objective.objective import Objective, Weights
from glnn.objective.terms import READINGS

__all__ = ["READINGS", "Objective", "Weights"]
