"""The estimate itself: hide labels, fit without them, judge, compare, and say it."""

import html
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from jaxtyping import Float

from glnn._utils import html_table
from glnn.exceptions import MissingDependencyError
from glnn.quality.calibration import Calibration, class_shares
from glnn.quality.folds import Folds, HeldOut, Refit, hold_out, label_weights, stratified_folds
from glnn.quality.labelling import ConformalSets
from glnn.quality.metrics import (
    Interval,
    Judged,
    accuracy_interval,
    bootstrap_weights,
    class_intervals,
    confusion,
    metric_intervals,
    paired_difference,
    reliability,
)
from glnn.quality.rivals import NodeProblem, comparable_features, get_plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from pandas import DataFrame


# --- comparison: Plain methods on the same folds: what a fit must beat to be worth its cost

COMPARED = ("majority", "logistic_regression", "label_spreading", "knn_gcn")
"""Names of the plain methods, in the order in which they are shown."""


@dataclass(frozen=True, eq=False)
class MethodScore:
    """How a method judges labels that it has not seen.

    Parameters
    ----------
    name, title
        Its name in code, and for people.
    judged
        Its predictions beside the truth.
    metrics
        All metrics with their intervals.
    seconds
        What its fits took together.
    difference
        By how much the accuracy of the judged fit exceeds this method's, on the same nodes;
        ``None`` for the fit itself.
    """

    name: str
    title: str
    judged: Judged
    metrics: Mapping[str, Interval]
    seconds: float
    difference: Interval | None = None

    @classmethod
    def of(
        cls,
        name: str,
        title: str,
        judged: Judged,
        weights: np.ndarray,
        seconds: float,
        own: Judged | None = None,
    ) -> "MethodScore":
        """Measure predictions, and how far those of the judged fit are ahead of them.

        Parameters
        ----------
        name, title, judged, seconds
            As of the class.
        weights
            Bootstrap samples of the judged nodes.
        own
            Predictions of the judged fit; ``None`` if these are its own.
        """
        ahead = None if own is None else paired_difference(own, judged, weights)
        return cls(name, title, judged, metric_intervals(judged, weights), seconds, ahead)


def plain_scores(
    problem: NodeProblem,
    folds: Folds,
    own: Judged,
    weights: np.ndarray,
    *,
    names: Sequence[str] = COMPARED,
    seed: int = 0,
    watch: Callable[[str], None] | None = None,
) -> tuple[MethodScore, ...]:
    """Run plain methods on the folds of a fit.

    Parameters
    ----------
    problem
        Features, graph and the labels that may be seen; those of a fold are hidden in turn.
    folds
        The same as those of the fit.
    own
        Predictions of the fit at the nodes that the folds judge.
    weights
        Bootstrap samples of these nodes.
    names
        Of :data:`glnn.quality.rivals.PLAIN_METHODS`.
    seed
        Of the methods that have randomness.
    watch
        Told the title of each method before it begins.
    """
    scores = []
    for name in names:
        method = get_plain(name)
        if watch is not None:
            watch(method.title)
        started = time.perf_counter()
        judged = _judged(problem, folds, name, seed)
        seconds = time.perf_counter() - started
        scores.append(MethodScore.of(name, method.title, judged, weights, seconds, own))
    return tuple(scores)


def _judged(problem: NodeProblem, folds: Folds, name: str, seed: int) -> Judged:
    features = comparable_features(problem.features)

    def refit(hidden: np.ndarray) -> np.ndarray:
        fewer = NodeProblem(
            features,
            problem.graph,
            problem.labels,
            np.setdiff1d(problem.train, hidden),
            problem.validation,
            problem.n_classes,
        )
        return get_plain(name).fit_predict(fewer, seed).probabilities

    held_out = hold_out(refit, problem.labels, folds)
    nodes = held_out.judged
    return Judged(held_out.classes[nodes], held_out.probabilities[nodes])


# --- verdict: One sentence that says whether an answer is any good

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


# --- evaluation: What an honest estimate found: numbers, predictions, a sentence, a picture

HOW = (
    "95 % intervals; accuracy, precision and recall by Wilson's formula, the rest by a bootstrap "
    "over nodes, both as if half as many labels had been judged, because mistakes on one graph "
    "come together"
)
"""How every interval is made, for all who show one."""

ALPHA = 0.1
"""Of the sets whose coverage is measured."""


@dataclass(frozen=True, eq=False)
class Evaluation:
    """How good a fit is on labels that it had not seen.

    Parameters
    ----------
    classes
        The labels, sorted.
    folds
        Which labels were hidden together.
    held_out
        Raw predictions by fits that had not seen the label.
    calibration
        The map to calibrated probabilities, learned from all judged labels.
    probabilities
        Calibrated held-out probabilities of every node, each by a map that other folds taught.
    own
        The fit's score.
    others
        Scores of plain methods on the same folds.
    per_class
        Precision and recall of every class.
    coverage
        Share of sets of ``predict_set(0.1)`` that had the true class; ``None`` for too few labels.
    notes
        What else a user should know.
    """

    classes: np.ndarray
    folds: Folds
    held_out: HeldOut
    calibration: Calibration
    probabilities: np.ndarray
    own: MethodScore
    others: tuple[MethodScore, ...]
    per_class: tuple[dict[str, Interval], ...]
    coverage: Interval | None = None
    notes: tuple[str, ...] = ()

    @property
    def metrics(self) -> dict[str, Interval]:
        """Every metric of the fit with its interval."""
        return dict(self.own.metrics)

    @cached_property
    def verdict(self) -> Verdict:
        """Whether the fit is any good, in one sentence."""
        return verdict_of(self.own, self.others)

    @cached_property
    def confusion(self) -> np.ndarray:
        """Number of judged nodes by true and predicted class."""
        n_classes = len(self.classes)
        table = np.zeros((n_classes, n_classes), dtype=np.int64)
        np.add.at(table, (self.own.judged.classes, self.own.judged.predicted), 1)
        return table

    @property
    def predictions(self) -> "DataFrame":
        """One row for each judged node: label, prediction, probabilities, and which fold."""
        from pandas import DataFrame

        nodes, judged = self.held_out.judged, self.own.judged
        columns: dict[str, Any] = {
            "label": self.classes[judged.classes],
            "predicted": self.classes[judged.predicted],
            "probability": judged.confidence,
            "fold": self.held_out.fold[nodes],
        }
        for number, label in enumerate(self.classes):
            columns[f"p({label})"] = judged.probabilities[:, number]
        return DataFrame(columns, index=nodes).rename_axis("node")

    def to_frame(self) -> "DataFrame":
        """Return one row for each method and metric: value, and the ends of its interval."""
        from pandas import DataFrame

        rows = [
            (score.title, name, interval.value, interval.low, interval.high)
            for score in (self.own, *self.others)
            for name, interval in score.metrics.items()
        ]
        return DataFrame(rows, columns=["method", "metric", "value", "low", "high"])

    def to_dict(self) -> dict[str, Any]:
        """Return everything measured as plain values, the verdict first."""
        names = [str(label) for label in self.classes]
        return {
            "verdict": self.verdict.sentence,
            "kind": self.verdict.kind,
            "n_labels": len(self.own.judged),
            "n_folds": len(self.folds),
            "intervals": HOW,
            "metrics": {name: vars(value) for name, value in self.own.metrics.items()},
            "per_class": {
                name: {key: vars(value) for key, value in found.items()}
                for name, found in zip(names, self.per_class)
            },
            "confusion": {"classes": names, "true_by_predicted": self.confusion.tolist()},
            "set_coverage": None if self.coverage is None else vars(self.coverage),
            "plain_methods": [_plain_page(score) for score in self.others],
            "calibration": self.calibration.to_dict(),
            "notes": list(self.notes),
        }

    def summary(self) -> str:
        """Return the verdict, the metrics and the comparison as text."""
        lines = [self.verdict.sentence, ""]
        lines += [f"{name:<20} {value}" for name, value in self.own.metrics.items()]
        lines += ["", f"{'on the same folds':<20} accuracy (this fit minus the method)"]
        for score in self.others:
            lines.append(f"{score.title:<20} {score.metrics['accuracy']} ({_signed(score)})")
        lines += ["", f"{len(self.own.judged)} labels in {len(self.folds)} folds; {HOW}."]
        return "\n".join([*lines, *self.notes])

    def plot(self) -> "Figure":
        """Return a picture: how true probabilities are, and which classes are mixed up."""
        return evaluation_figure(self.own.judged, [str(label) for label in self.classes])

    def __repr__(self) -> str:
        return f"Evaluation({len(self.own.judged)} labels, {len(self.folds)} folds: {self.verdict})"

    def _repr_html_(self) -> str:
        verdict = html.escape(self.verdict.sentence)
        return f"<p><b>{verdict}</b></p>{html_table(self.own.metrics)}"


def _plain_page(score: MethodScore) -> dict[str, Any]:
    return {
        "name": score.name,
        "seconds": score.seconds,
        "metrics": {name: vars(value) for name, value in score.metrics.items()},
        "accuracy_difference": None if score.difference is None else vars(score.difference),
    }


def _signed(score: MethodScore) -> str:
    difference = score.difference
    if difference is None:
        return "-"
    return f"{difference.value:+.3f} [{difference.low:+.3f}, {difference.high:+.3f}]"


# --- shares: How frequent the classes are among rows without a label, where labels were not drawn

_N_STEPS = 100

UNLIKE = 0.1
"""Shares differ clearly if so large a part of the rows would have to change its class."""


def shares_elsewhere(
    probabilities: Float[np.ndarray, "n c"], shares: Float[np.ndarray, "c"]
) -> Float[np.ndarray, "c"]:
    """Return the likeliest shares of the classes among rows without a label.

    Parameters
    ----------
    probabilities
        Their calibrated probabilities.
    shares
        Those of the labels, none of them zero.

    Examples
    --------
    >>> q = np.array([[0.9, 0.1]] * 9 + [[0.1, 0.9]])
    >>> bool(shares_elsewhere(q, np.array([0.5, 0.5]))[0] > 0.9)
    True
    """
    found = np.array(shares, dtype=np.float64)
    for _ in range(_N_STEPS):
        weighted = probabilities * (found / shares)
        found = (weighted / weighted.sum(1, keepdims=True)).mean(0)
    return found


def note_on_shares(
    judged: Judged, elsewhere: Float[np.ndarray, "n c"], names: np.ndarray
) -> list[str]:
    """Return a line where classes are clearly less or more frequent among rows without a label.

    It says what the accuracy is there: the recall of each class, weighted by its share.

    Parameters
    ----------
    judged
        Predictions of hidden labels.
    elsewhere
        Calibrated probabilities of the rows without a label.
    names
        The classes.
    """
    counts = np.bincount(judged.classes, minlength=judged.n_classes)
    if not len(elsewhere) or (counts == 0).any():
        return []
    shares = counts / counts.sum()
    found = shares_elsewhere(elsewhere, shares)
    if np.abs(found - shares).sum() / 2 < UNLIKE:
        return []
    right = judged.predicted == judged.classes
    recall = np.bincount(judged.classes, right, minlength=judged.n_classes) / counts
    most = int(np.abs(found - shares).argmax())
    return [
        f"classes seem to be otherwise frequent among rows without a label ({names[most]} about "
        f"{100 * found[most]:.0f} %, {100 * shares[most]:.0f} % among labels): accuracy there "
        f"about {100 * found @ recall:.0f} %"
    ]


# --- balance: Whether rare classes would gain from weights, told without another fit


def balanced_gain(judged: Judged, weights: np.ndarray) -> Interval | None:
    r"""Return how much macro-F1 rises if classes are chosen by :math:`q_c / \pi_c`.

    Balanced class weights teach a fit the distribution in which all classes are equally frequent.
    Dividing calibrated probabilities by the shares of the classes gives nearly the same choice.
    ``None`` where classes are even: then there is nothing to gain.

    Parameters
    ----------
    judged
        Calibrated predictions of hidden labels.
    weights
        Bootstrap samples of the judged nodes.
    """
    shares, is_uneven = class_shares(np.bincount(judged.classes, minlength=judged.n_classes))
    if not is_uneven:
        return None
    weighted = judged.probabilities / shares
    balanced = Judged(judged.classes, weighted / weighted.sum(1, keepdims=True))
    return paired_difference(balanced, judged, weights, "macro_f1")


# --- estimate: The estimate itself: hide labels, fit without them, judge, compare, and say it


def estimate(
    problem: NodeProblem,
    refit: Refit,
    classes: np.ndarray,
    *,
    class_weight: Any = None,
    n_folds: int = 5,
    compared: Sequence[str] = COMPARED,
    seed: int = 0,
    n_jobs: int | None = 1,
    watch: Callable[[str], None] | None = None,
) -> Evaluation:
    """Judge a fit on labels that it has not seen, beside plain methods.

    Parameters
    ----------
    problem
        Features, graph, labels; validation nodes keep their place in every fold and are not
        judged.
    refit
        Fits without the labels of some nodes; returns raw class probabilities of every node.
    classes
        The labels, in the order of the class numbers.
    class_weight
        That of the fit: calibration keeps to the same weights.
    n_folds
        Number of fits.
    compared
        Names of plain methods.
    seed
        Of the folds, the bootstrap and the plain methods.
    n_jobs
        Fits at a time, as in joblib.
    watch
        Told what begins.
    """
    tell = watch or _ignore
    trains = np.full(problem.n_nodes, -1, dtype=np.int64)
    trains[problem.train] = problem.labels[problem.train]
    folds = stratified_folds(trains, n_folds, seed)
    started = time.perf_counter()
    held_out = hold_out(
        refit, trains, folds, n_jobs=n_jobs, watch=lambda k: tell(f"fold {k + 1} of {len(folds)}")
    )
    seconds = time.perf_counter() - started
    counted = label_weights(class_weight, None, classes, held_out.classes)
    probabilities = held_out.calibrated(counted)
    nodes = held_out.judged
    judged = Judged(held_out.classes[nodes], probabilities[nodes])
    weights = bootstrap_weights(len(nodes), np.random.default_rng(seed))
    own = MethodScore.of("glnn", "GLNN", judged, weights, seconds)
    notes = _notes(folds, judged, classes, weights, class_weight)
    if class_weight is None and len(judged) >= FEWEST and beats_chance(own):
        notes += note_on_shares(judged, probabilities[problem.labels < 0], classes)
    others = plain_scores(problem, folds, judged, weights, names=compared, seed=seed, watch=tell)
    return Evaluation(
        classes,
        folds,
        held_out,
        held_out.calibration(weights=counted),
        probabilities,
        own,
        others,
        tuple(class_intervals(judged)),
        set_coverage(held_out, ALPHA),
        tuple(notes),
    )


def set_coverage(held_out: HeldOut, alpha: float) -> Interval | None:
    """Return the share of judged nodes whose set, made by other folds, has their class."""
    n_right, nodes = 0, held_out.judged
    for number in np.unique(held_out.fold[nodes]):
        own = nodes[held_out.fold[nodes] == number]
        rest = np.where(held_out.fold == number, -1, held_out.classes)
        sets = ConformalSets.of(HeldOut(held_out.probabilities, rest, held_out.fold))
        if len(sets.scores) < 1 / alpha:
            return None
        p_values = sets.p_values(held_out.probabilities[own])
        n_right += int((p_values[np.arange(len(own)), held_out.classes[own]] > alpha).sum())
    return accuracy_interval(n_right, len(nodes))


def _notes(
    folds: Folds, judged: Judged, classes: np.ndarray, weights: np.ndarray, class_weight: Any
) -> list[str]:
    notes = []
    if folds.single.size:
        names = ", ".join(str(classes[number]) for number in folds.single)
        notes.append(f"classes with a single label train but cannot be judged: {names}")
    if folds.is_repeated:
        notes.append(
            f"some classes have fewer labels than folds: one of each is hidden in each of the "
            f"{len(folds)} fits, in turn"
        )
    seen = np.isin(np.arange(len(classes)), judged.classes)
    never = seen & ~np.isin(np.arange(len(classes)), judged.predicted)
    if never.any():
        names = ", ".join(str(label) for label in classes[never])
        notes.append(f"classes that are never predicted where their labels are hidden: {names}")
    gain = None if class_weight is not None else balanced_gain(judged, weights)
    if gain is not None and gain.low > 0:
        notes.append(
            f"balanced class weights would raise macro-F1 by about {gain.value:.2f} (judged from "
            "the hidden labels' probabilities): try class_weight='balanced'"
        )
    return notes


def _ignore(stage: str) -> None:
    """Nobody watches."""


# --- picture: A picture of an estimate: are probabilities true, and which classes are mixed up


def evaluation_figure(judged: Judged, class_names: Sequence[str]) -> "Figure":
    """Draw the reliability curve beside the confusion matrix.

    Parameters
    ----------
    judged
        Calibrated predictions of hidden labels.
    class_names
        In the order of the classes.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingDependencyError(
            "a picture needs matplotlib. Install it with pip install 'glnn[report]'."
        ) from None
    figure = Figure(figsize=(9, 4), layout="constrained")
    left, right = figure.subplots(1, 2)
    draw_reliability(left, judged)
    draw_confusion(right, judged, class_names)
    return figure


def draw_reliability(axes: "Axes", judged: Judged) -> None:
    """Draw how often predictions of each confidence are right; the diagonal is ideal."""
    curve = reliability(judged)
    axes.plot([0, 1], [0, 1], color="0.7", linewidth=1)
    size = 10 + 200 * curve["count"] / curve["count"].sum()
    axes.scatter(curve["confidence"], curve["accuracy"], s=size, color="#3366aa")
    axes.plot(curve["confidence"], curve["accuracy"], color="#3366aa", linewidth=1)
    axes.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")
    axes.set(xlabel="predicted probability", ylabel="share that is right")
    axes.set_title("On hidden labels")


def draw_confusion(axes: "Axes", judged: Judged, class_names: Sequence[str]) -> None:
    """Draw the share of each true class that is predicted as each class."""
    table = confusion(judged, np.ones((1, len(judged))))[0]
    shares = table / np.maximum(table.sum(1, keepdims=True), 1)
    axes.imshow(shares, cmap="Blues", vmin=0, vmax=1)
    places = np.arange(len(class_names))
    axes.set_xticks(places, class_names, rotation=90)
    axes.set_yticks(places, class_names)
    axes.set(xlabel="predicted", ylabel="true")
    if len(class_names) <= 12:
        for i, j in np.argwhere(table > 0):
            dark = "white" if shares[i, j] > 0.5 else "black"
            axes.text(j, i, f"{table[i, j]:.0f}", ha="center", va="center", color=dark)
