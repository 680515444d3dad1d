import numpy as np
import pytest
import scipy.sparse as sp

from glnn.parallel.pairs import dots, nearest_rows, own_pairs, rows_of
from glnn.peers import Partition
from glnn.solver.candidates import nearest
from glnn.solver.pairs import Pairs


@pytest.mark.parametrize("kind", ["sparse", "dense"])
def test_the_search_finds_the_same_pairs_ties_included(words, together, kind):
    features = words[0] if kind == "sparse" else words[0].toarray()
    i, j = nearest(features, 6)

    def work(peers):
        return nearest_rows(Partition(150, peers), features[Partition(150, peers).rows], 6, 4096)

    rows, columns = (np.concatenate(ends) for ends in zip(*together(3, work)))
    assert set(zip(rows, columns)) == set(zip(i, j))


def test_pairs_go_to_their_owners_and_come_back_as_rows(symmetric, together):
    n_nodes = symmetric.shape[0]
    i, j = symmetric.nonzero()
    whole = Pairs.union(n_nodes, [(i, j)])
    values = whole.values_of(symmetric)

    def work(peers):
        part = Partition(n_nodes, peers)
        local = symmetric[part.rows].tocoo()
        pairs = own_pairs(part, [(local.row + part.start, local.col)])
        block = rows_of(part, pairs, values[np.searchsorted(whole.keys, pairs.keys)])
        return len(pairs), block

    counts, blocks = zip(*together(4, work))
    assert sum(counts) == len(whole)
    assert abs(sp.vstack(blocks) - symmetric).max() == 0


def test_products_of_ends_are_those_of_the_whole_signal(words, together):
    signal = words[0].astype(np.float64)
    i, j = nearest(signal, 5)
    whole = Pairs.union(150, [(i, j)])
    expected = np.asarray((signal[whole.i].multiply(signal[whole.j])).sum(1)).ravel()

    def work(peers):
        part = Partition(150, peers)
        mine = part.pair_owner(whole.i, whole.j) == peers.rank
        own = signal[part.rows]
        return np.abs(dots(part, own, own, whole.select(mine)) - expected[mine]).max()

    assert max(together(3, work)) < 1e-12
