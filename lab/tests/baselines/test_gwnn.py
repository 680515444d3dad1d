import dataclasses

import numpy as np
import pytest
import torch

from glnn.exceptions import InputError
from glnn_lab.baselines import BASELINES
from glnn_lab.baselines.gwnn import GWNN


def test_large_graphs_take_the_polynomial_to_the_same_logits(blocks, shortened):
    both = [
        shortened(BASELINES["gwnn"], n_exact=n, threshold=0.0).build(blocks[0], seed=0).scores()
        for n in (4000, 0)
    ]
    np.testing.assert_allclose(*(z.detach().numpy() for z in both), atol=1e-3)


def test_with_the_exact_inverse_and_filters_of_one_nothing_is_mixed(blocks, shortened):
    method = shortened(BASELINES["gwnn"], n_exact=0, inverse="exact")
    net = method.build(blocks[0], seed=0).module
    x = torch.randn(blocks[0].n_nodes, 4, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(net.first(x), x, atol=1e-3, rtol=1e-3)


def test_an_unknown_inverse_is_refused(shortened):
    with pytest.raises(InputError, match="inverse must be one of"):
        shortened(BASELINES["gwnn"], inverse="exakt")


def test_the_filter_of_a_node_that_no_label_reaches_stays_one(make_blocks, shortened):
    problem, _, _ = make_blocks(n_isolated=20, across=0.0)
    method = shortened(BASELINES["gwnn"], n_epochs=30)
    task = method.build(problem, seed=0)
    method.train(task, problem)
    change = task.module.first.change.detach().ravel()
    alone = np.setdiff1d(np.arange(20), problem.train)
    assert not change[alone].any()
    assert change[problem.train].abs().min() > 0


def test_long_training_without_validation_keeps_the_features_of_isolated_nodes(make_blocks):
    problem, truth, test = make_blocks(n_isolated=45)
    last = dataclasses.replace(problem, validation=np.empty(0, dtype=int))
    settings = dataclasses.replace(BASELINES["gwnn"].settings, n_epochs=600)
    prediction = GWNN(settings).fit_predict(last, seed=0)
    alone = test[test < 45]
    assert (prediction.classes[alone] == truth[alone]).mean() > 0.6  # chance is 1/3
