import numpy as np
import scipy.sparse as sp

from glnn.report.page.links import ADDED, DROPPED, KEPT, links_of, upper_links


def random_graph(rng, n=12, share=0.3):
    upper = np.triu(rng.random((n, n)) * (rng.random((n, n)) < share), 1)
    return sp.csr_matrix(upper + upper.T + np.eye(n))


def test_fates_are_the_sets_of_a_venn_diagram():
    rng = np.random.default_rng(0)
    learned, given = random_graph(rng), random_graph(rng)
    links = links_of(learned, given)
    dense = learned.toarray() > 0, given.toarray() > 0
    for fate, members in (
        (KEPT, dense[0] & dense[1]),
        (ADDED, dense[0] & ~dense[1]),
        (DROPPED, ~dense[0] & dense[1]),
    ):
        found = np.zeros_like(members)
        chosen = links.pick(links.fate == fate)
        found[chosen.source, chosen.target] = True
        np.testing.assert_array_equal(found, np.triu(members, 1))


def test_weights_are_those_of_the_learned_graph_and_places_number_its_links():
    rng = np.random.default_rng(1)
    learned, given = random_graph(rng), random_graph(rng)
    links = links_of(learned, given)
    np.testing.assert_allclose(links.weight, learned.toarray()[links.source, links.target])
    learned_links = links.pick(links.fate != DROPPED)
    np.testing.assert_array_equal(learned_links.place, np.arange(len(learned_links)))
    assert len(learned_links) == upper_links(learned).nnz


def test_without_a_given_graph_every_link_is_added():
    links = links_of(random_graph(np.random.default_rng(2)), None)
    assert set(links.fate) == {ADDED}
