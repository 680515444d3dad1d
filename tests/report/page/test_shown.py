import dataclasses

import numpy as np

from glnn.report.page.links import DROPPED, upper_links
from glnn.report.page.shown import page_arrays, shown_part


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
    assert "50 heaviest" in shown.left_out


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
