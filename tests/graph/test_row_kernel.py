import pytest
import scipy.sparse as sp
import torch
from torch.testing import assert_close

from glnn.exceptions import SlowPathWarning
from glnn.graph import row_kernel
from glnn.graph.csr import CsrPattern, added, product
from glnn.graph.row_kernel import is_kernel_ready, row_product, tile_of

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")


def test_on_the_host_no_kernel_is_ready():
    assert not is_kernel_ready(torch.zeros(2, 2))


def test_longer_rows_get_larger_tiles_of_two_sizes():
    sizes = [tile_of(longest, 1000) for longest in (0, 1, 100, 400, 3000, 10**6)]
    assert sizes == sorted(sizes)
    assert len(set(sizes)) == 2


def test_a_long_row_among_many_gets_the_small_tile():
    assert tile_of(3000, 10**6) == tile_of(30, 1000) != tile_of(3000, 1000)


def test_where_no_kernel_runs_one_warning_says_why(monkeypatch):
    def broken(*args, **kwargs):
        raise OSError("there is no compiler\nand more")

    monkeypatch.setattr(row_kernel, "row_product", broken)
    row_kernel._runs.cache_clear()
    with pytest.warns(SlowPathWarning, match="no kernel runs: there is no compiler$"):
        assert not row_kernel._runs(torch.device("cpu"))
    assert not row_kernel._runs(torch.device("cpu"))
    row_kernel._runs.cache_clear()


def matrix_of(n_rows, n_columns, density, seed=0):
    return sp.random(n_rows, n_columns, density, format="csr", random_state=seed)


def pattern_of(matrix, device):
    offsets, columns = (torch.from_numpy(a).to(device) for a in (matrix.indptr, matrix.indices))
    order = torch.arange(matrix.nnz, device=device)
    return CsrPattern.compressed(matrix.shape, offsets, columns, order)


@pytest.mark.gpu
@needs_gpu
@pytest.mark.parametrize("width", [1, 7, 16, 33, 100])
@pytest.mark.parametrize("density", [0.0, 0.02, 0.9])
def test_the_product_is_that_of_the_full_matrix(width, density):
    matrix = matrix_of(57, 700, density)
    pattern = pattern_of(matrix, "cuda")
    values = torch.from_numpy(matrix.data).float().cuda()
    x = torch.randn(700, width, device="cuda")
    start = torch.randn(57, width, device="cuda")
    full = torch.from_numpy(matrix.toarray()).float().cuda()
    assert pattern.has_short_rows(x)
    assert_close(product(pattern.filled(values), x), full @ x, atol=1e-4, rtol=1e-5)
    wanted = start + full @ x
    out = torch.full_like(start, torch.nan)
    assert_close(added(start, pattern.filled(values), x, out=out), wanted, atol=1e-4, rtol=1e-5)
    added(start, pattern.filled(values), x)
    assert_close(start, wanted, atol=1e-4, rtol=1e-5)
    g = torch.randn(57, width, device="cuda")
    assert_close(pattern.transposed().matmul(values, g), full.T @ g, atol=1e-4, rtol=1e-5)


@pytest.mark.gpu
@needs_gpu
def test_the_same_product_has_the_same_bits():
    matrix = matrix_of(300, 5000, 0.2)
    pattern = pattern_of(matrix, "cuda")
    values, x = torch.from_numpy(matrix.data).float().cuda(), torch.randn(5000, 16, device="cuda")
    found = [
        row_product(pattern.offsets, pattern.columns, values, x, longest=pattern.longest)
        for _ in range(3)
    ]
    assert torch.equal(found[0], found[1])
    assert torch.equal(found[0], found[2])


@pytest.mark.gpu
@needs_gpu
def test_long_rows_and_double_precision_are_left_to_the_library():
    matrix = matrix_of(2, 9000, 0.8)
    pattern = pattern_of(matrix, "cuda")
    x = torch.randn(9000, 3, device="cuda")
    assert not pattern.has_short_rows(x)
    assert not is_kernel_ready(x.double())
    values = torch.from_numpy(matrix.data).cuda()
    full = torch.from_numpy(matrix.toarray()).cuda()
    assert_close(pattern.matmul(values, x.double()), full @ x.double())
