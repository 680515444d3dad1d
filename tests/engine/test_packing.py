import dataclasses

import numpy as np
import pytest
import torch

from glnn.engine.classifier import build_head
from glnn.engine.packing import (
    fill_networks,
    graph_settings_of,
    pack_networks,
    pack_new_rows,
    settings_of,
    unpack_new_rows,
)
from glnn.engine.presets import PRESETS
from glnn.solver import learn_graph


@pytest.mark.parametrize("preset", PRESETS)
def test_settings_survive_as_plain_values(preset):
    settings = PRESETS[preset]
    assert settings_of(dataclasses.asdict(settings)) == settings
    assert graph_settings_of(dataclasses.asdict(settings.graph)) == settings.graph


def test_networks_get_the_parameters_that_were_packed():
    heads = (PRESETS["default"].head, *PRESETS["default"].competitors)
    first, other = (
        [build_head(head, 4, 3, torch.Generator().manual_seed(seed)) for head in heads]
        for seed in (0, 1)
    )
    arrays: dict[str, np.ndarray] = {}
    pack_networks(first, arrays)
    fill_networks(other, arrays)
    for one, two in zip(first, other):
        assert all(torch.equal(p, q) for p, q in zip(one.parameters(), two.parameters()))


@pytest.mark.parametrize("with_graph", [True, False])
def test_the_one_row_problem_gives_the_same_links_again(blocks, with_graph):
    features, graph, _ = blocks
    rows = learn_graph(features, graph if with_graph else None).new_rows
    arrays: dict[str, np.ndarray] = {}
    page = pack_new_rows(rows, arrays)
    again = unpack_new_rows(page, arrays)
    new = features[:3] + features[10:13]
    found, expected = again.connect(new), rows.connect(new)
    assert abs(found.links - expected.links).max() == 0
    np.testing.assert_array_equal(found.loops, expected.loops)
