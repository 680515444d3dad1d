import numpy as np
import scipy.sparse as sp

from glnn.engine.callbacks import Callback
from glnn.engine.memories import pack_memories, recall_memories


class Remembering(Callback):
    def __init__(self, kept):
        self.kept = kept

    def memory(self):
        return self.kept

    def recall(self, memory):
        self.kept = memory


def test_every_callback_gets_back_its_own_memory():
    graphs = [sp.csr_matrix(np.eye(3) * k) for k in (1, 2, 3)]
    first = Remembering({"a": (graphs[0], {"x": 0.5}), "b": (graphs[1], {})})
    last = Remembering({"a": (graphs[2], {"y": 2.0})})
    arrays = {}
    packed = pack_memories([first, Callback(), last], arrays)
    again = [Remembering(None), Callback(), Remembering(None), Remembering("new")]
    recall_memories(again, packed, arrays)
    for old, new in ((first, again[0]), (last, again[2])):
        assert list(new.kept) == list(old.kept)
        for name, (graph, numbers) in old.kept.items():
            assert (new.kept[name][0] != graph).nnz == 0
            assert new.kept[name][1] == numbers
    assert again[3].kept == "new"
