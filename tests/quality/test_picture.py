import pytest

from glnn.quality.picture import evaluation_figure

pytest.importorskip("matplotlib")


def test_the_picture_has_a_reliability_curve_and_all_counts(drawn):
    judged = drawn(50)
    curve, table = evaluation_figure(judged, ["a", "b", "c"]).axes
    assert curve.get_xlabel() == "predicted probability"
    assert sum(int(text.get_text()) for text in table.texts) == 50
