"""What labels that were kept for the test say of a fit, and of plain methods beside it."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from glnn.quality.comparison import MethodScore
from glnn.quality.intervals import bootstrap_weights
from glnn.quality.metrics import Judged
from glnn.quality.verdict import Verdict, verdict_of


@dataclass(frozen=True, eq=False)
class Score:
    """One method on the test nodes, on the same labels as the others.

    Parameters
    ----------
    method
        Its name for people.
    accuracy
        On the test nodes; ``None`` without any.
    seconds
        What its fit took.
    note
        Why there is no number.
    probabilities
        Of the test nodes, one column for each class of the data, if they were kept.
    name
        Its name in code.
    """

    method: str
    accuracy: float | None
    seconds: float
    note: str = ""
    probabilities: np.ndarray | None = None
    name: str = ""

    def to_dict(self) -> dict[str, str | float | None]:
        """Return what is written of it."""
        return {name: vars(self)[name] for name in ("method", "accuracy", "seconds", "note")}


@dataclass(frozen=True, eq=False)
class OnTestNodes:
    """A fit and plain methods, judged node by node on labels that none of them has seen.

    Parameters
    ----------
    own, others
        The fit, and the methods that it was compared with, with a column for each class of the
        data.
    """

    own: MethodScore
    others: tuple[MethodScore, ...]

    @classmethod
    def of(
        cls,
        labels: np.ndarray,
        probabilities: np.ndarray,
        classes: np.ndarray,
        n_classes: int,
        others: Sequence[Score] = (),
    ) -> "OnTestNodes":
        """Judge the test nodes.

        Parameters
        ----------
        labels
            Their class numbers.
        probabilities, classes
            What the fit says of them, and the class number of each of its columns. A class that
            had no label to learn from has no column; its nodes count as mistakes.
        n_classes
            Of the data.
        others
            Compared methods, of which those with probabilities are judged.
        """
        said = np.zeros((len(labels), n_classes))
        said[:, classes] = probabilities
        own = Judged(labels, said)
        weights = bootstrap_weights(len(own), np.random.default_rng(0))
        beside = [
            MethodScore.of(
                other.name,
                other.method,
                Judged(labels, other.probabilities),
                weights,
                other.seconds,
                own,
            )
            for other in others
            if other.probabilities is not None
        ]
        return cls(MethodScore.of("glnn", "GLNN", own, weights, 0.0), tuple(beside))

    @property
    def verdict(self) -> Verdict:
        """Whether the answer is any good, and whether a plain method does as well."""
        return verdict_of(self.own, self.others)
