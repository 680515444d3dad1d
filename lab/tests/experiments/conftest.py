import os

import pytest

from glnn_lab.experiments.cells import FIRST_SEED, Cell
from glnn_lab.experiments.datasets import standard_split


@pytest.fixture
def published_data():
    if not os.environ.get("GLNN_DATA"):
        pytest.skip("the published data sets are found through GLNN_DATA, which is not set")


@pytest.fixture
def small_cell():
    """Return a function that makes a cell on data that come with glnn, with few epochs."""

    def make(method="gcn", seed=FIRST_SEED, dataset="block_model", **fields):
        trained = method.startswith("glnn") or method in ("gcn", "mlp")
        settings = {"n_epochs": 5} if trained else {}
        split, options = standard_split(dataset)
        given = {"split_options": options, "settings": settings} | fields
        return Cell(method, dataset, seed, split, **given)

    return make


@pytest.fixture
def small_target():
    """Return a function that makes the text of a target of one block on Cora."""

    def make(*methods):
        return f"""
title = "t"
about = "a"
seeds = 2

[[block]]
name = "b"
title = "t"
methods = {list(methods)}
datasets = ["cora"]
"""

    return make
