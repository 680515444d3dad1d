import numpy as np
import pytest

from glnn.exceptions import InputError
from glnn.quality.conformal import ConformalSets, strangeness
from glnn.quality.held_out import HeldOut


def sets_of(judged):
    return ConformalSets.of(HeldOut(judged.probabilities, judged.classes, np.zeros(len(judged))))


def test_strangeness_is_the_log_ratio_to_the_best_other_class(rng):
    p = rng.dirichlet(np.ones(4), size=20)
    expected = np.array([[np.log(np.delete(row, c).max() / row[c]) for c in range(4)] for row in p])
    np.testing.assert_allclose(strangeness(p), expected)


def test_tied_classes_are_equally_strange():
    np.testing.assert_array_equal(strangeness(np.array([[0.4, 0.4, 0.2]]))[0, :2], [0, 0])


@pytest.mark.parametrize("alpha", [0.05, 0.1, 0.3])
def test_sets_keep_their_promise_on_nodes_of_the_same_kind(alpha, drawn):
    shares = []
    for _ in range(40):
        seen, new = drawn(100), drawn(200)
        inside = sets_of(seen).contains(new.probabilities, alpha)
        shares.append(inside[np.arange(200), new.classes].mean())
    assert np.mean(shares) == pytest.approx(1 - alpha, abs=0.02)


def test_a_smaller_alpha_never_takes_a_class_out(drawn):
    judged = drawn()
    sets = sets_of(judged)
    wide, narrow = (sets.contains(judged.probabilities, alpha) for alpha in (0.05, 0.3))
    assert (wide >= narrow).all()
    assert wide.sum() > narrow.sum()


def test_too_few_labels_are_told_with_how_many_are_needed(drawn):
    with pytest.raises(InputError, match="at least 19 labels to judge, got 10"):
        sets_of(drawn(10)).contains(np.full((1, 3), 1 / 3), 0.1)


def test_a_class_as_strange_as_may_be_missed_is_missed():
    sets = ConformalSets(np.arange(19.0))  # a p-value is a multiple of 1/20

    def node(strange):
        odds = np.exp([[0.0, -strange]])
        return odds / odds.sum()

    assert sets.contains(node(17.5), 0.1).tolist() == [[True, False]]  # 2/20 is not above 0.1
    assert sets.contains(node(16.5), 0.1).tolist() == [[True, True]]
