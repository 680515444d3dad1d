import numpy as np
import pytest

from glnn.quality.metrics import Judged
from glnn.quality.picture import evaluation_figure

pytest.importorskip("matplotlib")


def test_the_picture_has_a_reliability_curve_and_all_counts(drawn):
    judged = drawn(50)
    curve, table = evaluation_figure(judged, ["a", "b", "c"]).axes
    assert curve.get_xlabel() == "predicted probability"
    assert sum(int(text.get_text()) for text in table.texts) == 50


def test_the_table_has_the_share_of_each_true_class(drawn):
    judged = drawn(50)
    kept = Judged(judged.classes[judged.classes != 2], judged.probabilities[judged.classes != 2])
    figure = evaluation_figure(kept, ["a", "b", "c"])
    curve, table = figure.axes
    shares = np.asarray(table.images[0].get_array())
    np.testing.assert_allclose(shares.sum(1), [1, 1, 0])
    counts = np.bincount(kept.predicted[kept.classes == 0], minlength=3)
    np.testing.assert_allclose(shares[0], counts / counts.sum())
    assert curve.get_xlim() == curve.get_ylim() == (0, 1)
