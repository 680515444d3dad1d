"""One sentence that says whether an answer is any good."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from glnn.quality.comparison import MethodScore

FEWEST = 20
"""With fewer judged labels nothing can be told."""

Kind = Literal["good", "level", "plain", "chance", "few"]


@dataclass(frozen=True)
class Verdict:
    """A sentence, and what it comes to.

    ``good``: better than chance, and clearly better than every plain method that was compared.
    ``level``: better than chance, and no plain method is clearly better. ``plain``: one is.
    ``chance``: no better than naming one class always. ``few``: too few labels to tell, or all of
    one class.
    """

    kind: Kind
    sentence: str

    def __str__(self) -> str:
        return self.sentence


def verdict_of(own: MethodScore, others: Sequence[MethodScore]) -> Verdict:
    """Compare a fit with plain methods on labels that neither had seen.

    Parameters
    ----------
    own
        The fit.
    others
        Plain methods on the same folds.
    """
    n_judged = len(own.judged)
    if n_judged < FEWEST:
        return Verdict("few", f"too few labels to tell: {n_judged}")
    if len(np.unique(own.judged.classes)) < 2:
        one_class = f"all {n_judged} labels that could be hidden are of one class"
        return Verdict("few", f"cannot tell: {one_class}")
    about = f"{_about(own)} on labels it had not seen"
    rivals = [other for other in others if other.name != "majority"]
    best = max(rivals, key=_accuracy, default=None)
    if not beats_chance(own):
        share = majority_share(own)
        sentence = f"no better than chance: {about}, where one class alone has {share:.0%}"
        if best is not None and best.difference is not None and best.difference.high < 0:
            sentence += f"; {best.title} has {_accuracy(best):.0%}: use that here"
        return Verdict("chance", _spaced(sentence))
    if best is None:
        return Verdict("good", _spaced(about))
    rival = f"{best.title} {_accuracy(best):.0%}"
    if best.difference is not None and best.difference.high < 0:
        return Verdict("plain", _spaced(f"{about}; {rival}: use that here"))
    if best.difference is not None and best.difference.low > 0:
        return Verdict("good", _spaced(f"{about}; clearly above the best plain method, {rival}"))
    same = "not clearly different from the best plain method"
    return Verdict("level", _spaced(f"{about}; {same}, {rival}"))


def beats_chance(own: MethodScore) -> bool:
    """Tell whether accuracy is clearly above the largest class's share, or classes are told apart.

    Where one class has nearly all nodes, accuracy cannot show the second; balanced accuracy does.
    """
    by_accuracy = own.metrics["accuracy"].low > majority_share(own)
    chance = 1 / len(np.unique(own.judged.classes))  # the mean is over classes with a judged label
    return by_accuracy or own.metrics["balanced_accuracy"].low > chance


def majority_share(own: MethodScore) -> float:
    """Return the share of the largest class among the judged labels."""
    classes = own.judged.classes
    return float(max((classes == number).mean() for number in set(classes.tolist())))


def _about(own: MethodScore) -> str:
    accuracy = own.metrics["accuracy"]
    return f"about {accuracy.value:.0%} ± {100 * accuracy.half_width:.0f}"


def _accuracy(score: MethodScore) -> float:
    return score.metrics["accuracy"].value


def _spaced(sentence: str) -> str:
    """Put a space before each sign of percent, as elsewhere."""
    return sentence.replace("%", " %")
