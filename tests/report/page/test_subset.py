import dataclasses

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from glnn.data.node_data import extract_links
from glnn.report.links import ADDED, DROPPED, merge_links
from glnn.report.page import document
from glnn.report.page.subset import (
    build_arrays,
    encode_block,
    select_links,
    select_subset,
)


def test_a_small_graph_is_shown_whole_and_nothing_is_said_to_be_left_out(make_page):
    page = make_page(60)
    shown = select_subset(page)
    assert "are drawn" not in document.render(page)
    assert len(shown.chosen) == 60
    np.testing.assert_allclose(shown.links.weight.sum(), extract_links(page.adjacency).data.sum())


def test_a_sample_keeps_labelled_nodes_and_says_what_it_leaves_out(make_page, monkeypatch):
    page = make_page(200)
    shown = select_subset(page, max_nodes=80, max_links=50)
    monkeypatch.setattr(document, "select_subset", lambda *_: shown)
    words = document.render(page)
    assert np.isin(np.flatnonzero(page.seen), shown.chosen).all()
    assert len(shown.chosen) == 80
    assert len(shown.links) == 50
    assert "80 of 200 nodes" in words
    assert "50 are drawn" in words
    assert sum(shown.fates) > 50


def test_of_too_many_links_no_node_loses_its_heaviest_and_given_ones_come_before_added(make_page):
    links = merge_links(*(getattr(make_page(150), name) for name in ("adjacency", "given")))
    n_needed = int((links.fate != ADDED).sum()) + 150
    drawn = select_links(links, n_needed)
    assert len(drawn) == n_needed
    assert (drawn.fate != ADDED).sum() == (links.fate != ADDED).sum()
    for node in range(150):
        own, shown = (
            part.weight[(part.source == node) | (part.target == node)] for part in (links, drawn)
        )
        assert not own.size or shown.max() == own.max()


def test_shares_of_terms_stay_with_their_links_in_a_sample(make_page):
    page = make_page(150)
    weights = extract_links(page.adjacency).data
    terms = dataclasses.replace(page.terms, names=("all",), shares=weights[:, None])
    page = dataclasses.replace(page, terms=terms)
    shown = select_subset(page, max_nodes=70)
    _, arrays = build_arrays(page, shown)
    np.testing.assert_allclose(arrays["shares"][:, 0], shown.links.weight, rtol=2**-8)
    assert (arrays["shares"][shown.links.fate == DROPPED] == 0).all()


def test_probabilities_and_classes_survive_their_short_form(make_page):
    page = make_page(40)
    words, arrays = build_arrays(page, select_subset(page))
    np.testing.assert_allclose(arrays["probabilities"] / 65535, page.probabilities, atol=1e-5)
    np.testing.assert_array_equal(arrays["truth"].astype(int) - 1, page.labels)
    assert words["ids"] == page.ids.tolist()


# The block of data

KINDS = st.sampled_from([np.uint8, np.uint16, np.uint32, np.float32])


@given(st.lists(st.tuples(KINDS, st.integers(0, 7)), max_size=4), st.text(max_size=9))
def test_what_is_packed_comes_back_whatever_its_length(decode_block, blocks, text):
    arrays = {f"a{k}": np.arange(n, dtype=kind) for k, (kind, n) in enumerate(blocks)}
    words, found = decode_block(encode_block({"text": text}, arrays))
    assert words == {"text": text}
    assert found.keys() == arrays.keys()
    for name, array in arrays.items():
        np.testing.assert_array_equal(found[name], array)
