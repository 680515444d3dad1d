import numpy as np

from glnn_lab.benches.compare import open_bench
from glnn_lab.benches.contenders import (
    CONTENDERS,
    PLAIN_GCN,
    engine_gcn,
    graph_over_all_pairs,
)


def test_names_are_their_keys_and_point_to_known_contenders():
    assert PLAIN_GCN in CONTENDERS
    for name, contender in CONTENDERS.items():
        assert contender.name == name
        assert contender.epochs_of is None or contender.epochs_of in CONTENDERS


def test_our_plain_network_learns_and_repeats_itself():
    data, split = open_bench("tiny")
    first, again = (engine_gcn(data, split, 0, 60) for _ in range(2))
    assert first.n_epochs == 60
    np.testing.assert_array_equal(first.classes, again.classes)
    assert (first.classes == data.labels)[split.test].mean() > 0.5


def test_the_graph_over_all_pairs_says_how_many_were_checked():
    data, split = open_bench("tiny")
    ran = graph_over_all_pairs(data, split, 0, None)
    assert ran.classes is None
    assert ran.note == f"{data.n_nodes * (data.n_nodes + 1) // 2:,} pairs checked"
