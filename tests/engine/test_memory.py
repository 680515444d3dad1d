import dataclasses
import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from glnn.engine import memory
from glnn.engine.fit import fit_problem
from glnn.engine.memory import (
    FIXED,
    capped_memory,
    check_memory,
    expected_bytes,
    free_bytes,
    is_out_of_memory,
    parse_bytes,
    shown_bytes,
)
from glnn.engine.presets import resolve_settings
from glnn.exceptions import GlnnError, InputError

LITERAL, DEFAULT = resolve_settings("literal"), resolve_settings("default")


def test_a_dense_matrix_grows_with_the_square_and_a_sparse_one_with_its_entries(problem):
    doubled = dataclasses.replace(
        problem,
        features=sp.vstack([problem.features, problem.features]).tocsr(),
        graph=sp.block_diag([problem.graph, problem.graph]).tocsr(),
    )
    assert expected_bytes(doubled, LITERAL) == 4 * expected_bytes(problem, LITERAL)
    assert expected_bytes(doubled, DEFAULT) - FIXED == 2 * (
        expected_bytes(problem, DEFAULT) - FIXED
    )
    denser = dataclasses.replace(problem, graph=(problem.graph @ problem.graph).tocsr())
    assert expected_bytes(denser, DEFAULT) > expected_bytes(problem, DEFAULT)


@pytest.mark.parametrize(
    ("settings", "words"), [(LITERAL, "keep the graph sparse"), (DEFAULT, "n_candidates")]
)
def test_too_large_a_fit_is_refused_with_the_number_and_a_way_out(
    problem, monkeypatch, settings, words
):
    needed = expected_bytes(problem, settings)
    monkeypatch.setattr(memory, "free_bytes", lambda: needed)
    check_memory(problem, settings)
    monkeypatch.setattr(memory, "free_bytes", lambda: None)
    check_memory(problem, settings)
    monkeypatch.setattr(memory, "free_bytes", lambda: needed - 1)
    with pytest.raises(InputError, match=words) as caught:
        fit_problem(problem, settings, seed=0)
    assert shown_bytes(needed) in str(caught.value)
    assert "\n" not in str(caught.value)


class Large:
    """Features of which only the shape is looked at."""

    shape = (3_000_000, 800)
    nnz = 2**31 + 8


def test_more_stored_entries_than_32_bits_count_are_estimated_not_overflown(problem):
    large = dataclasses.replace(problem, graph=None)
    object.__setattr__(large, "features", Large())
    assert expected_bytes(large, DEFAULT) > 2**31 * 8
    assert expected_bytes(large, LITERAL) == 56 * Large.shape[0] ** 2


@pytest.mark.parametrize(
    ("error", "full"),
    [
        (MemoryError(), True),
        (torch.cuda.OutOfMemoryError("x"), True),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to ..."), True),
        (RuntimeError("shapes do not match"), False),
    ],
)
def test_what_means_that_memory_has_run_out(error, full, problem, monkeypatch):
    assert is_out_of_memory(error) == full

    def fail(*args, **named):
        raise error

    monkeypatch.setattr("glnn.engine.fit.Steps", fail)
    with pytest.raises(GlnnError if full else RuntimeError, match="memory" if full else "shapes"):
        fit_problem(problem, DEFAULT, seed=0)


@pytest.mark.parametrize("text", ["", "GB", "-1GB", "1XB", "1e3", "two"])
def test_a_size_that_is_none_is_refused(text):
    with pytest.raises(InputError, match="500MB"):
        parse_bytes(text)


@pytest.mark.parametrize("count", [1, 1500, 2**20, 7 * 2**30, 3 * 2**40])
def test_sizes_in_words_are_read_again(count):
    assert parse_bytes(shown_bytes(count).replace(" bytes", "")) == pytest.approx(count, rel=0.05)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="other systems count otherwise")
def test_a_cap_holds_inside_its_block_only():
    free = free_bytes()
    with capped_memory(2**36):
        assert free_bytes() <= 2**36
        assert memory._data_limit() == 2**36
    assert free_bytes() > 0.5 * free
    with pytest.raises(InputError, match="at least"), capped_memory(2**20):
        pass
    with capped_memory(None):
        assert memory._data_limit() is None


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="other systems count otherwise")
def test_memory_beyond_the_cap_is_refused_by_the_system():
    code = (
        "import numpy as np\n"
        "from glnn.engine.memory import capped_memory\n"
        "with capped_memory(2**31):\n"
        "    try: np.ones(2**29)\n"
        "    except MemoryError: print('refused')\n"
        "np.ones(2**20)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "refused\n"
    assert np.ones(1).sum() == 1


@pytest.mark.parametrize(
    ("limit", "used", "wanted"),
    [(None, 5, 8192), (6144, None, 8192), (6144, 1, 5120), (6144, 5, 1024), (6144, 7, 0)],
)
def test_what_is_free_is_what_the_machine_and_the_process_own_limit_leave(
    limit, used, wanted, monkeypatch
):
    told = {"/proc/meminfo": 8, "/proc/self/status": used}
    monkeypatch.setattr(memory, "_number", lambda path, after="": told.get(path))
    monkeypatch.setattr(memory, "_data_limit", lambda: limit)
    assert memory.free_bytes() == wanted
