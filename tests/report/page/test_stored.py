import dataclasses

import numpy as np
import pytest
import scipy.sparse as sp

from glnn.exceptions import DataFormatError, InputError
from glnn.report.page.document import render
from glnn.report.page.stored import read_page, write_page


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
    write_page(tmp_path / "page.npz", page)
    back = read_page(tmp_path / "page.npz")
    assert same(page, back)
    assert render(back) == render(page)


@pytest.mark.parametrize("content", [b"", b"no archive", b"PK\x03\x04"])
def test_another_file_is_refused_in_one_line(tmp_path, content):
    path = tmp_path / "page.npz"
    path.write_bytes(content)
    with pytest.raises(DataFormatError, match=r"page\.npz"):
        read_page(path)


def test_an_archive_without_our_words_or_with_an_unknown_class_is_refused(tmp_path):
    for words in (b"{}", b'{"format": "glnn page 1", "page": {"class": "Path", "fields": {}}}'):
        np.savez(tmp_path / "page.npz", words=np.frombuffer(words, np.uint8))
        with pytest.raises(DataFormatError):
            read_page(tmp_path / "page.npz")


def test_a_missing_file_says_what_to_name(tmp_path):
    with pytest.raises(InputError, match="folder of a run"):
        read_page(tmp_path / "page.npz")
