"""Whether an answer is any good, and how it compares with plain methods."""

from glnn.quality.calibration import Calibration
from glnn.quality.evaluation import Evaluation
from glnn.quality.held_out import HeldOut

__all__ = ["Calibration", "Evaluation", "HeldOut"]
