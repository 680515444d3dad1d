"""Rows of spread tensors that this process needs, fetched from those who have them."""

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from glnn.peers.partition import Partition

AT_ONCE = 2**24
"""Bytes of fetched rows up to which all columns come in one message."""


class RowExchange:
    """Fetches the same rows again and again: who wants what is said once.

    Parameters
    ----------
    partition
        Which rows are whose.
    wanted
        Numbers of the rows that are needed here, increasing.
    device
        Where the tensors lie.
    """

    def __init__(
        self, partition: Partition, wanted: np.ndarray, device: str | torch.device = "cpu"
    ) -> None:
        self.partition, self._peers = partition, partition.peers
        bounds = partition.bounds
        ends = np.searchsorted(wanted, bounds)
        self._ends: list[int] = ends.tolist()
        numbers = [
            (wanted[ends[q] : ends[q + 1]] - bounds[q]).astype(np.int64)
            for q in range(self._peers.size)
        ]
        asked = self._peers.all_to_all(numbers)
        self._asked = [torch.from_numpy(rows).to(device) for rows in asked]
        self.wanted = torch.from_numpy(wanted).to(device)
        self._most = int(self._peers.all_reduce(float(len(wanted)), "max"))

    @classmethod
    def of_all(cls, partition: Partition, device: str | torch.device = "cpu") -> "RowExchange":
        """Fetch the rows of all nodes."""
        return cls(partition, np.arange(partition.n_nodes), device)

    def fetched(self, x: Float[Tensor, "rows d"]) -> Float[Tensor, "wanted d"]:
        """Return the wanted rows, of which each process has its own in ``x``."""
        if self._peers.size == 1:
            return x
        rank, ends = self._peers.rank, self._ends
        result = x.new_empty(ends[-1], x.shape[1])
        places = [result[ends[q] : ends[q + 1]] for q in range(self._peers.size)]
        places[rank].copy_(x[self._asked[rank]])
        sent = [x[rows] if q != rank else x[:0] for q, rows in enumerate(self._asked)]
        self._peers.all_to_all_(places, sent)
        return result

    def column_blocks(self, x: Float[Tensor, "rows d"]) -> list[slice]:
        """Return which columns to fetch together, so that they need little room.

        Blocks are the same in every process. More than ``AT_ONCE`` bytes are fetched at a time
        only if the smallest share of all rows takes as many.
        """
        width = x.shape[1]
        if self._peers.size == 1:
            return [slice(0, width)]
        room = max(AT_ONCE, int(self.partition.bounds[1]) * width * x.element_size())
        n_columns = max(1, min(width, room // max(1, self._most * x.element_size())))
        return [slice(first, first + n_columns) for first in range(0, width, n_columns)]
