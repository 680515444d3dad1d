"""From what was measured to what the page's first two sections show."""

import dataclasses
import math
from collections.abc import Sequence

import numpy as np

from glnn.quality import Evaluation as Estimate
from glnn.quality.comparison import MethodScore
from glnn.quality.evaluation import HOW
from glnn.quality.intervals import Interval, bootstrap_weights, class_intervals
from glnn.quality.metrics import Judged, confusion, reliability
from glnn.quality.verdict import Kind, verdict_of
from glnn.report.page.data import ClassQuality, Evaluation, Measure, Method, Tone
from glnn.report.tested import OnTestNodes
from glnn.report.words import count

_TONES: dict[Kind, Tone] = {
    "good": "good",
    "level": "caution",
    "plain": "caution",
    "few": "caution",
    "chance": "bad",
}
_SHOWN = {
    "balanced_accuracy": "balanced accuracy",
    "macro_f1": "macro-F1",
    "log_loss": "log loss",
    "brier": "Brier score",
    "auc": "area under the curve",
    "calibration_error": "calibration error",
}


def estimated(estimate: Estimate, class_names: Sequence[str]) -> Evaluation:
    """Return what folds over the labelled nodes found.

    Parameters
    ----------
    estimate
        The estimate.
    class_names
        Of all classes of the data; some may have had no label to judge.
    """
    names = [str(label) for label in estimate.classes]
    n_judged, n_folds = len(estimate.own.judged), len(estimate.folds)
    basis = (
        f"Measured on {count(n_judged, 'label')} hidden in turn, in {n_folds} folds; {HOW}. Map "
        "and table show these nodes as the fits without their label do."
    )
    extra = (
        []
        if estimate.coverage is None
        else [measure_of("sets that hold the true class", estimate.coverage)]
    )
    found = _shown(
        estimate.own, estimate.others, estimate.per_class, names, basis, estimate.notes, extra
    )
    assert found.confusion is not None  # which is always counted
    place = np.array([list(class_names).index(name) for name in names])
    confusion = np.zeros((len(class_names), len(class_names)), dtype=np.int64)
    confusion[np.ix_(place, place)] = found.confusion
    return dataclasses.replace(found, confusion=confusion)


def on_test_nodes(tested: OnTestNodes, class_names: Sequence[str]) -> Evaluation:
    """Return what labels that were kept for the test found.

    Parameters
    ----------
    tested
        The fit and compared methods on the same nodes.
    class_names
        Of all classes of the data.
    """
    own = tested.own
    basis = f"Measured on {count(len(own.judged), 'label')} kept for the test; {HOW}."
    return _shown(own, tested.others, class_intervals(own.judged), class_names, basis)


def on_hidden_labels(judged: Judged, names: Sequence[str]) -> Evaluation:
    """Return what fits said of labels that were hidden from them, nothing beside it."""
    weights = bootstrap_weights(len(judged), np.random.default_rng(0))
    own = MethodScore.of("glnn", "GLNN", judged, weights, 0.0)
    basis = f"Measured on {count(len(judged), 'label')} hidden in turn; {HOW}."
    return _shown(own, (), class_intervals(judged), names, basis)


def _shown(
    own: MethodScore,
    others: Sequence[MethodScore],
    per_class: Sequence[dict[str, Interval]],
    names: Sequence[str],
    basis: str,
    notes: Sequence[str] = (),
    extra: Sequence[Measure] = (),
) -> Evaluation:
    verdict = verdict_of(own, others)
    sizes = {
        key: np.bincount(among, minlength=len(names))
        for key, among in (("precision", own.judged.predicted), ("recall", own.judged.classes))
    }
    bins = reliability(own.judged)
    table = confusion(own.judged, np.ones((1, len(own.judged))))[0]
    return Evaluation(
        verdict.sentence[:1].upper() + verdict.sentence[1:],
        _TONES[verdict.kind],
        basis,
        tuple(_method(score, score is own) for score in (own, *others)),
        (
            *(
                measure_of(_SHOWN[name], own.metrics[name])
                for name in _SHOWN
                if name in own.metrics
            ),
            *extra,
        ),
        tuple(
            ClassQuality(
                name,
                int(sizes["recall"][k]),
                *(_of_some(key, found[key], int(sizes[key][k])) for key in sizes),
            )
            for k, (name, found) in enumerate(zip(names, per_class))
        ),
        np.rint(table).astype(np.int64),
        tuple(zip(*(bins[key].tolist() for key in ("confidence", "accuracy", "count")))),
        own.metrics["calibration_error"].value,
        tuple(notes),
    )


def _method(score: MethodScore, is_own: bool) -> Method:
    ahead = None if score.difference is None else measure_of("lead", score.difference)
    return Method(score.title, measure_of("accuracy", score.metrics["accuracy"]), ahead, is_own)


def _of_some(name: str, interval: Interval, n_nodes: int) -> Measure:
    """Return a share of some nodes; of none there is no share, and the interval says nothing."""
    return measure_of(name, interval) if n_nodes else Measure(name, None)


def measure_of(name: str, interval: Interval) -> Measure:
    """Return an interval as the page's number; what is not known is left out."""
    value, low, high = (
        part if math.isfinite(part) else None
        for part in (interval.value, interval.low, interval.high)
    )
    return Measure(name, value, low, high)
