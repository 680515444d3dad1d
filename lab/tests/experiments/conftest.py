import os

import pytest

from glnn_lab.experiments.cells import Cell
from glnn_lab.experiments.datasets import standard_split


@pytest.fixture
def published_data():
    if not os.environ.get("GLNN_DATA"):
        pytest.skip("the published data sets are found through GLNN_DATA, which is not set")


@pytest.fixture
def small_cell():
    """Return a function that makes a cell on data that come with glnn, with few epochs."""

    def make(method="gcn", seed=0, dataset="block_model", **fields):
        trained = method.startswith("glnn") or method in ("gcn", "mlp")
        settings = {"n_epochs": 5} if trained else {}
        split, options = standard_split(dataset)
        given = {"split_options": options, "settings": settings} | fields
        return Cell(method, dataset, seed, split, **given)

    return make
