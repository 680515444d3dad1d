"""Rows of near clusters compared on a device: nothing is asked of it until all are done."""

import torch
from torch import Tensor


def nearest_in_clusters(
    rows: Tensor, starts: Tensor, near: Tensor, k: int
) -> tuple[Tensor, Tensor]:
    r"""Return places and scores of the ``k`` largest products of each row with rows it may see.

    Places that were not filled have the score :math:`-\infty`.

    Parameters
    ----------
    rows
        Dense rows in the order of their clusters.
    starts
        Where each cluster begins, and one past the last.
    near
        The clusters that each cluster looks at; it sees itself first in any case.
    """
    found = torch.zeros(len(rows), k, dtype=torch.int64, device=rows.device)
    score = torch.full((len(rows), k), -torch.inf, dtype=rows.dtype, device=rows.device)
    own = torch.arange(len(near), device=rows.device)[:, None]
    seen = torch.cat([own, near.to(rows.device)], 1)
    starts = starts.to(rows.device)
    sizes = starts.diff()[seen]
    sizes[:, 1:].masked_fill_(seen[:, 1:] == own, 0)  # itself once
    shifts = starts[seen] - (sizes.cumsum(1) - sizes)
    totals, ends = sizes.sum(1).tolist(), starts.tolist()
    places = torch.arange(max(totals), device=rows.device)
    for cluster, total in enumerate(totals):
        mine = slice(ends[cluster], ends[cluster + 1])
        if mine.start == mine.stop:
            continue
        shift = torch.repeat_interleave(shifts[cluster], sizes[cluster], output_size=total)
        columns = places[:total] + shift
        products = rows[mine] @ rows.index_select(0, columns).T
        products.diagonal().fill_(-torch.inf)
        width = min(k, total)
        score[mine, :width], place = torch.topk(products, width, dim=1)
        found[mine, :width] = columns[place]
    return found, score
