import dataclasses

import numpy as np
import pytest
import torch

from glnn.engine.classifier import ClassifierTask
from glnn.engine.committee import Contest, mean_and_error
from glnn.engine.trained import Trained, mean_answer, tempered
from glnn.engine.trainer import Validation
from glnn.peers import Partition

CLASSES = np.arange(40) % 2
VALIDATION = Validation(torch.arange(5, 35), torch.from_numpy(CLASSES[5:35]))


def member(n_wrong, sure=0.9, first=5):
    """A classifier that is wrong on some validation nodes in a row."""
    right = np.full(40, sure)
    right[first : first + n_wrong] = 1 - sure
    probabilities = np.empty((40, 2))
    probabilities[np.arange(40), CLASSES], probabilities[np.arange(40), 1 - CLASSES] = (
        right,
        1 - right,
    )
    return Trained(ClassifierTask.__new__(ClassifierTask), probabilities, None, None)


def chosen(candidates, validation, n_errors=1.0):
    """Those that are kept, at their temperatures, the best first."""
    kept = Contest.of([c.probabilities for c in candidates], validation).kept(n_errors)
    return [dataclasses.replace(candidates[k], temperature=t) for k, t in kept.items()]


def test_how_sure_a_classifier_is_does_not_count():
    calm, sure = member(3, sure=0.6), member(3, sure=0.999)
    members = chosen([calm, sure], VALIDATION)
    assert len(members) == 2
    answers = [tempered(m.probabilities, m.temperature) for m in members]
    np.testing.assert_allclose(answers[0], answers[1], atol=0.05)
    np.testing.assert_allclose(mean_answer(members), np.mean(answers, axis=0))


def test_equals_answer_together_and_the_clearly_worse_do_not():
    good, other, bad = member(3), member(4, first=20), member(15)
    members = chosen([bad, other, good], VALIDATION)
    assert [m.task for m in members] == [good.task, other.task]


def test_nodes_without_weight_tell_nothing_apart():
    good, bad = member(0), member(15)
    counted = np.ones(30)
    assert len(chosen([good, bad], VALIDATION.weighted(counted))) == 1
    counted[:15] = 0.0  # those on which they differ
    assert len(chosen([good, bad], VALIDATION.weighted(counted))) == 2


def test_a_candidate_alone_is_chosen():
    only = member(15)
    assert [m.task for m in chosen([only], VALIDATION)] == [only.task]


def test_processes_agree_with_one(together):
    rng = np.random.default_rng(0)
    differences = torch.from_numpy(rng.normal(size=30))

    def work(peers):
        part = Partition(40, peers)
        local = VALIDATION.local(part)
        mine = differences[part.has(VALIDATION.nodes.numpy())]
        return mean_and_error(mine, local)

    mean, error = mean_and_error(differences, VALIDATION)
    assert mean == pytest.approx(differences.mean().item())
    assert error == pytest.approx(differences.std().item() / 30**0.5)
    for found in together(3, work):
        assert found == pytest.approx((mean, error))


def test_who_is_as_often_right_is_kept_though_sure_of_its_mistakes():
    calm, sure = member(6, sure=0.9), member(0)
    doubtful = np.where(np.arange(40) % 3 == 0, 0.55, 0.99)  # knows where it may be wrong
    doubtful[5:35:5] = 0.45
    other = np.empty((40, 2))
    other[np.arange(40), CLASSES], other[np.arange(40), 1 - CLASSES] = doubtful, 1 - doubtful
    calm_mistakes = calm.probabilities[5:35].argmax(1) != CLASSES[5:35]
    assert calm_mistakes.sum() == (other[5:35].argmax(1) != CLASSES[5:35]).sum() == 6
    both = chosen([calm, Trained(calm.task, other, None, None)], VALIDATION)
    assert len(both) == 2
    assert len(chosen([calm, sure], VALIDATION)) == 1  # worse in both


def test_one_standard_error_tells_two_apart_unless_more_are_asked_for():
    good, worse = member(3), member(5)  # five mistakes, three of them shared: 1.4 errors
    candidates = [worse, good]
    assert len(chosen(candidates, VALIDATION)) == 1
    assert len(chosen(candidates, VALIDATION, 2.0)) == 2
    assert chosen(candidates, VALIDATION)[0].task is good.task
