import json

import numpy as np
import pytest

from glnn.engine.sealed import digest_of, read_sealed, write_sealed
from glnn.exceptions import CheckpointError

PAGE = {"numbers": [0.1, 2e-300, -5], "text": "é", "none": None, "nested": {"b": 1, "a": 2}}


@pytest.fixture
def path(tmp_path):
    write_sealed(tmp_path / "page.json", "test", 4, PAGE)
    return tmp_path / "page.json"


def test_what_is_written_is_read_again(path):
    assert read_sealed(path, "test", 4) == {"format": "test", "version": 4, **PAGE}


def test_any_flipped_bit_is_noticed(path):
    whole = path.read_bytes()
    for place in range(len(whole)):
        for bit in (0, 5):
            changed = bytearray(whole)
            changed[place] ^= 1 << bit
            path.write_bytes(changed)
            try:
                assert read_sealed(path, "test", 4) == {"format": "test", "version": 4, **PAGE}
            except CheckpointError as error:
                assert "\n" not in str(error)


def test_any_cut_is_noticed(path):
    whole = path.read_bytes()
    for length in range(len(whole) - 1):
        path.write_bytes(whole[:length])
        with pytest.raises(CheckpointError):
            read_sealed(path, "test", 4)


@pytest.mark.parametrize(("kind", "version"), [("test", 5), ("other", 4)])
def test_another_kind_or_version_is_named(path, kind, version):
    with pytest.raises(CheckpointError, match=r"must be a .* of format"):
        read_sealed(path, kind, version)


def test_a_page_of_many_brackets_is_one_line(path):
    path.write_text("[" * 100_000)
    with pytest.raises(CheckpointError, match="cannot be read"):
        read_sealed(path, "test", 4)


def test_a_page_beyond_the_limit_is_refused_unread(path):
    with path.open("wb") as file:
        file.truncate(2**30 + 1)
    with pytest.raises(CheckpointError, match="at most"):
        read_sealed(path, "test", 4)


def test_the_digest_knows_names_types_shapes_and_values():
    array = np.arange(6.0)
    same = digest_of("x", {"a": array, "b": array})
    assert same == digest_of("x", {"b": array, "a": array.copy()})
    others = [
        digest_of("y", {"a": array, "b": array}),
        digest_of("x", {"a": array, "c": array}),
        digest_of("x", {"a": array, "b": array.reshape(2, 3)}),
        digest_of("x", {"a": array, "b": array.view(np.int64)}),
        digest_of("x", {"a": array, "b": array + 1e-9}),
    ]
    assert len({same, *others}) == 6


def test_the_page_is_plain_json(path):
    assert json.loads(path.read_text())["numbers"] == PAGE["numbers"]
