import dataclasses

import numpy as np

from glnn.report.page.links import ADDED, DROPPED, links_of, upper_links
from glnn.report.page.shown import drawn_links, page_arrays, shown_part


def test_a_small_graph_is_shown_whole_and_nothing_is_said_to_be_left_out(make_page):
    page = make_page(60)
    shown = shown_part(page)
    assert shown.left_out == ""
    assert len(shown.chosen) == 60
    np.testing.assert_allclose(
        shown.links.weight.sum(), upper_links(page.graphs.learned).data.sum()
    )


def test_a_sample_keeps_labelled_nodes_and_says_what_it_leaves_out(make_page):
    page = make_page(200)
    shown = shown_part(page, most_nodes=80, most_links=50)
    assert np.isin(np.flatnonzero(page.nodes.seen), shown.chosen).all()
    assert len(shown.chosen) == 80
    assert len(shown.links) == 50
    assert "80 of 200 nodes" in shown.left_out
    assert "50 are drawn" in shown.left_out
    assert sum(shown.fates) > 50


def test_of_too_many_links_no_node_loses_its_heaviest_and_given_ones_come_before_added(make_page):
    links = links_of(*(getattr(make_page(150).graphs, name) for name in ("learned", "given")))
    n_needed = int((links.fate != ADDED).sum()) + 150
    drawn = drawn_links(links, n_needed)
    assert len(drawn) == n_needed
    assert (drawn.fate != ADDED).sum() == (links.fate != ADDED).sum()
    for node in range(150):
        own, shown = (
            part.weight[(part.source == node) | (part.target == node)] for part in (links, drawn)
        )
        assert not own.size or shown.max() == own.max()


def test_shares_of_terms_stay_with_their_links_in_a_sample(make_page):
    page = make_page(150)
    weights = upper_links(page.graphs.learned).data
    terms = dataclasses.replace(page.graphs.terms, names=("all",), shares=weights[:, None])
    page = dataclasses.replace(page, graphs=dataclasses.replace(page.graphs, terms=terms))
    shown = shown_part(page, most_nodes=70)
    _, arrays = page_arrays(page, shown)
    np.testing.assert_allclose(arrays["shares"][:, 0], shown.links.weight, rtol=2**-8)
    assert (arrays["shares"][shown.links.fate == DROPPED] == 0).all()


def test_probabilities_and_classes_survive_their_short_form(make_page):
    page = make_page(40)
    words, arrays = page_arrays(page, shown_part(page))
    np.testing.assert_allclose(arrays["probabilities"] / 65535, page.nodes.probabilities, atol=1e-5)
    np.testing.assert_array_equal(arrays["truth"].astype(int) - 1, page.nodes.truth)
    assert words["ids"] == list(page.nodes.ids)
