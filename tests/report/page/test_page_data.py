import dataclasses

import numpy as np
import pytest
import scipy.sparse as sp

from glnn.exceptions import DataFormatError, InputError
from glnn.report.page.document import render
from glnn.report.page.page_data import (
    ADDED,
    DROPPED,
    KEPT,
    extract_links,
    merge_links,
    read_page_data,
    write_page_data,
)


def test_nodes_have_one_entry_each_in_every_field(make_page):
    nodes = make_page(20).nodes
    assert len(nodes) == 20
    with pytest.raises(InputError, match="one entry a node"):
        dataclasses.replace(nodes, ids=nodes.ids[:-1])


# Storage


def same(left, right):
    if dataclasses.is_dataclass(left):
        return type(left) is type(right) and all(
            same(getattr(left, f.name), getattr(right, f.name)) for f in dataclasses.fields(left)
        )
    if sp.issparse(left):
        return (left != right).nnz == 0
    if isinstance(left, np.ndarray):
        return np.array_equal(left, right)
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(same(left[name], right[name]) for name in left)
    if isinstance(left, list | tuple):
        return len(left) == len(right) and all(map(same, left, right))
    return left == right


def test_a_page_comes_back_as_it_was_and_looks_the_same(make_page, tmp_path, monkeypatch):
    monkeypatch.setattr("glnn.report.page.document.has_bokeh", lambda: False)
    page = make_page(40)
    write_page_data(tmp_path / "page.npz", page)
    back = read_page_data(tmp_path / "page.npz")
    assert same(page, back)
    assert render(back) == render(page)


@pytest.mark.parametrize("content", [b"", b"no archive", b"PK\x03\x04"])
def test_another_file_is_refused_in_one_line(tmp_path, content):
    path = tmp_path / "page.npz"
    path.write_bytes(content)
    with pytest.raises(DataFormatError, match=r"page\.npz"):
        read_page_data(path)


def test_an_archive_without_our_words_or_with_an_unknown_class_is_refused(tmp_path):
    for words in (b"{}", b'{"format": "glnn page 1", "page": {"class": "Path", "fields": {}}}'):
        np.savez(tmp_path / "page.npz", words=np.frombuffer(words, np.uint8))
        with pytest.raises(DataFormatError):
            read_page_data(tmp_path / "page.npz")


def test_a_missing_file_says_what_to_name(tmp_path):
    with pytest.raises(InputError, match="folder of a run"):
        read_page_data(tmp_path / "page.npz")


# Links


def random_graph(rng, n=12, share=0.3):
    upper = np.triu(rng.random((n, n)) * (rng.random((n, n)) < share), 1)
    return sp.csr_matrix(upper + upper.T + np.eye(n))


def test_fates_are_the_sets_of_a_venn_diagram():
    rng = np.random.default_rng(0)
    learned, given = random_graph(rng), random_graph(rng)
    links = merge_links(learned, given)
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
    links = merge_links(learned, given)
    np.testing.assert_allclose(links.weight, learned.toarray()[links.source, links.target])
    learned_links = links.pick(links.fate != DROPPED)
    np.testing.assert_array_equal(learned_links.learned_index, np.arange(len(learned_links)))
    assert len(learned_links) == extract_links(learned).nnz


def test_without_a_given_graph_every_link_is_added():
    links = merge_links(random_graph(np.random.default_rng(2)), None)
    assert set(links.fate) == {ADDED}
