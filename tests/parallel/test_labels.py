import itertools

import numpy as np
import torch

from glnn.engine.classifier import Labels
from glnn.engine.trainer import Validation
from glnn.parallel.labels import LabelRows, ValidationRows
from glnn.peers import Partition

NODES = np.array([70, 3, 41, 12, 55, 8, 33, 64])
CLASSES = np.array([0, 1, 0, 1, 2, 2, 0, 1])


def test_validation_numbers_are_those_over_all_nodes(together):
    scores = torch.randn(80, 3, generator=torch.Generator().manual_seed(0))
    whole = Validation(torch.from_numpy(NODES), torch.from_numpy(CLASSES))

    def work(peers):
        part = Partition(80, peers)
        rows = ValidationRows.of(whole, part).to(torch.device("cpu"))
        return rows.evaluate(scores[part.rows])

    assert together(3, work) == [whole.evaluate(scores)] * 3


def test_labels_are_those_of_one_process(together):
    whole = Labels(NODES, CLASSES, 80, 3)

    def work(peers):
        part = Partition(80, peers)
        rows = LabelRows(whole, part).to("cpu")
        assert len(rows) == len(whole) == len(rows.whole)
        assert torch.equal(rows.whole.nodes, whole.nodes)
        assert torch.equal(rows.one_hot, whole.one_hot[part.rows])
        return (rows.nodes + part.start).tolist()

    assert sorted(itertools.chain(*together(3, work))) == sorted(NODES.tolist())
