import pytest
import torch

from glnn.solver.ties import exclude_itself, merge_best


def test_a_row_does_not_meet_itself():
    tile = torch.zeros(3, 5)
    exclude_itself(tile, 1)
    assert torch.isneginf(tile).nonzero().tolist() == [[0, 1], [1, 2], [2, 3]]
    exclude_itself(tile, 9)  # it is elsewhere
    assert torch.isneginf(tile).sum() == 3


@pytest.mark.parametrize("width", [1, 2, 7, 30])
@pytest.mark.parametrize("k", [1, 4])
def test_the_best_do_not_depend_on_the_width_of_the_tiles(width, k):
    whole = torch.randint(1, 4, (20, 30), generator=torch.Generator().manual_seed(0)).float()
    expected = merge_best(None, whole, (0, 0), k)
    best = None
    for first in range(0, 30, width):
        best = merge_best(best, whole[:, first : first + width], (0, first), k)
    assert torch.equal(best[0], expected[0])
    for found, wanted in zip(best[1], expected[1]):
        assert set(found.tolist()) == set(wanted.tolist())
    assert torch.equal(whole.gather(1, best[1]), best[0])


def test_level_columns_are_drawn_fairly():
    _, column = merge_best(None, torch.ones(500, 50), (0, 0), 5)
    assert torch.bincount(column.view(-1), minlength=50).max() < 100
