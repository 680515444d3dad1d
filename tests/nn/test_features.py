import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch.autograd import gradcheck
from torch.testing import assert_close

from glnn.nn import Features
from glnn.nn.features import keep_mask

# Features


@pytest.fixture
def matrix():
    generator = np.random.default_rng(0)
    matrix = sp.random(12, 7, 0.2, format="csr", rng=generator, dtype=np.float32)
    matrix.data -= 0.5  # both signs
    return matrix


def in_double(matrix):
    return Features.of(matrix, dtype=torch.float64)


def test_sparse_and_dense_features_have_the_same_product_and_the_same_gradient(matrix, rng):
    found = []
    for given in (matrix, matrix.toarray()):
        weight = torch.randn(7, 3, generator=torch.Generator().manual_seed(1), requires_grad=True)
        product = Features.of(given) @ weight
        product.pow(3).sum().backward()
        found.append((product.detach(), weight.grad))
    assert_close(found[0], found[1])
    assert_close(found[0][0], torch.from_numpy(matrix.toarray()) @ weight.detach())


@pytest.mark.parametrize("dense", [False, True], ids=["sparse", "dense"])
def test_the_gradient_to_the_weights_agrees_with_finite_differences(matrix, dense, rng):
    x = in_double(matrix.toarray() if dense else matrix)
    weight = torch.randn(7, 2, generator=rng, dtype=torch.float64, requires_grad=True)
    assert gradcheck(lambda w: x @ w, (weight,))


def test_dropout_touches_stored_values_only(matrix, rng):
    x = Features.of(matrix)
    out = x.apply_dropout(0.5, rng)
    assert len(out.values) == matrix.nnz
    empty = torch.from_numpy(matrix.toarray()) == 0
    assert not (out @ torch.eye(7))[empty].any()
    kept = out.values != 0
    assert_close(out.values[kept], 2 * x.values[kept])


@pytest.mark.parametrize("dense", [False, True], ids=["sparse", "dense"])
def test_read_only_input_as_joblib_hands_it_to_workers_is_taken(matrix, dense):
    if dense:
        given = matrix.toarray()
        given.flags.writeable = False
    else:
        given = matrix
        for array in (given.data, given.indices, given.indptr):
            array.flags.writeable = False
    assert_close(Features.of(given) @ torch.eye(7), torch.from_numpy(matrix.toarray()))


@pytest.mark.parametrize("storage", [np.asarray, sp.csr_matrix])
def test_blocks_of_columns_side_by_side_are_the_matrix(storage):
    rng = np.random.default_rng(0)
    dense = np.where(rng.random((7, 9)) < 0.2, rng.normal(size=(7, 9)), 0).astype(np.float32)
    x = Features.of(storage(dense))
    blocks = [x.columns(first, last) for first, last in ((0, 4), (4, 4), (4, 5), (5, 9))]
    assert all(block.is_contiguous() for block in blocks)
    np.testing.assert_array_equal(torch.cat(blocks, 1), dense)


# Dropout

RATES = [0.1, 0.5, 0.9]


@pytest.mark.parametrize("rate", RATES)
def test_the_expectation_is_kept(rate, rng):
    mask = keep_mask(torch.ones(400_000, dtype=torch.float64), rate, rng)
    deviation = (rate / (1 - rate) / mask.numel()) ** 0.5
    assert abs(mask.mean().item() - 1) < 4 * deviation


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")
@pytest.mark.parametrize("rate", RATES)
def test_a_mask_on_the_gpu_has_the_rate_and_the_rescaling_of_the_host(rate, rng):
    generator = torch.Generator("cuda").manual_seed(0)
    mask = keep_mask(torch.ones(400_000, device="cuda"), rate, generator).cpu()
    assert_close(mask.unique(), keep_mask(torch.ones(400_000), rate, rng).unique())
    assert abs((mask == 0).double().mean().item() - rate) < 0.005
