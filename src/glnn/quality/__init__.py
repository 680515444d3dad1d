"""Whether an answer is any good, and how it compares with plain methods."""

from glnn.quality.calibration import Calibration
from glnn.quality.estimate import Evaluation
from glnn.quality.folds import HeldOut

__all__ = ["Calibration", "Evaluation", "HeldOut"]
