"""Evaluation, calibration, explanations and label quality of a fitted classifier."""

from glnn.quality.calibration import Calibration
from glnn.quality.estimate import Evaluation
from glnn.quality.folds import HeldOut, labelled_scorer

__all__ = ["Calibration", "Evaluation", "HeldOut", "labelled_scorer"]
