"""The largest numbers of every row of a matrix that comes tile by tile, ties broken fairly."""

import torch
from torch import Tensor


def exclude_itself(tile: Tensor, shift: int) -> None:
    """Mark the entries (r, r + shift), where a row meets itself."""
    if -tile.shape[0] < shift < tile.shape[1]:
        tile.diagonal(offset=shift).fill_(-torch.inf)


def merge_best(
    best: tuple[Tensor, Tensor] | None, tile: Tensor, corner: tuple[int, int], k: int
) -> tuple[Tensor, Tensor]:
    """Keep the ``k`` largest of what was found and of the tile that begins at ``corner``.

    Of equal ones those with the lower :func:`_lot` are kept, so that the answer does not depend on
    how rows and columns were cut into tiles.
    """
    first_row, first_column = corner
    rows = torch.arange(first_row, first_row + len(tile), device=tile.device)[:, None]
    score, column = _largest(tile, rows, first_column, min(k, tile.shape[1]))
    if best is None:
        return score, column
    score, column = torch.cat([best[0], score], 1), torch.cat([best[1], column], 1)
    by_lot = _lot(rows, column).argsort(dim=1)
    score, column = score.gather(1, by_lot), column.gather(1, by_lot)
    score, place = torch.sort(score, dim=1, descending=True, stable=True)
    return score[:, :k], column.gather(1, place[:, :k])


def _largest(tile: Tensor, rows: Tensor, start: int, k: int) -> tuple[Tensor, Tensor]:
    """Return the ``k`` largest of each row with their columns, counted from ``start``.

    One more is looked at: if it equals the last, columns were left out that are as good. Where
    that is not positive, the caller has no use for it.
    """
    score, column = torch.topk(tile, min(k + 1, tile.shape[1]), dim=1)
    last = score[:, k - 1]
    is_tied = (last > 0) & (score.shape[1] > k) & (score[:, -1] == last)
    score, column = score[:, :k], column[:, :k]
    tied = torch.nonzero(is_tied).view(-1)
    n_wanted = (score[tied] == last[tied, None]).sum(1)
    at, equal = torch.nonzero(tile[tied] == last[tied, None], as_tuple=True)
    order = (at * 2**32 + _lot(rows[tied[at], 0], equal + start)).argsort()  # a row's lots in turn
    at, equal = at[order], equal[order]
    turn = torch.arange(len(at), device=at.device) - torch.searchsorted(at, at)
    drawn = turn < n_wanted[at]
    at, place = at[drawn], (k - n_wanted[at] + turn)[drawn]
    column[tied[at], place] = equal[drawn]
    return score, column + start


def _lot(row: Tensor, column: Tensor) -> Tensor:
    """Return a fixed scrambled number of each pair: ties must not make some nodes favourites."""
    return (row * 40_503 * 65_537 + column * 2_654_435_761) % 2**32
