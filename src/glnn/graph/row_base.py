"""What a matrix of signal rows can do, whether it is dense or stored by entries."""

from abc import ABC, abstractmethod

import numpy as np
import torch
from torch import Tensor

BLOCK_BYTES = 64 * 2**20
"""Memory for one block of products on the host."""

DEVICE_BYTES = 4 * 2**30
"""The same on a device that is not the host."""

DENSE_FROM = 0.05
"""Share of stored entries from which a dense product is the faster one."""

_ENTRIES = 2**18  # entries of pairs that are looked at together on the host


class RowMatrix(ABC):
    """A matrix that is read row by row; device and dtype are those of its tensors."""

    n_columns: int
    is_stored_by_entries: bool = False

    @abstractmethod
    def __len__(self) -> int:
        """Return the number of rows."""

    @abstractmethod
    def tensors(self) -> tuple[Tensor, ...]:
        """Return what the matrix consists of, to be sent to another process."""

    @abstractmethod
    def like(self, tensors: tuple[Tensor, ...]) -> "RowMatrix":
        """Return the matrix of the same width that consists of these tensors."""

    @abstractmethod
    def to(self, dtype: torch.dtype) -> "RowMatrix":
        """Return the same numbers in another precision."""

    @abstractmethod
    def block(self, rows: slice) -> "RowMatrix":
        """Return consecutive rows."""

    @abstractmethod
    def take(self, index: Tensor) -> "RowMatrix":
        """Return the rows with these numbers."""

    @abstractmethod
    def joined(self, others: "list[RowMatrix]") -> "RowMatrix":
        """Return these rows, then those of others that are stored alike."""

    @abstractmethod
    def dense(self) -> Tensor:
        """Return all entries."""

    @abstractmethod
    def times(self, right: Tensor) -> Tensor:
        """Return the product with a dense matrix."""

    @abstractmethod
    def met_by(self, left: Tensor) -> Tensor:
        r"""Return :math:`L X^\top`: dense rows times these."""

    @abstractmethod
    def scaled(self, scale: Tensor) -> "RowMatrix":
        """Return the matrix with its columns multiplied."""

    @abstractmethod
    def squared(self) -> "RowMatrix":
        """Return the squares of all entries."""

    @abstractmethod
    def column_sums(self, weights: Tensor) -> Tensor:
        r"""Return :math:`\sum_i w_i x_{ic}` for every column."""

    @abstractmethod
    def products(self, other: "RowMatrix", i: Tensor, j: Tensor) -> "RowMatrix":
        r"""Return :math:`x_{ic}\,z_{jc}`, a row for every pair (i, j)."""

    @abstractmethod
    def dots(self, other: "RowMatrix", i: Tensor, j: Tensor) -> Tensor:
        r"""Return :math:`x_i \cdot z_j` for every pair (i, j)."""

    @property
    @abstractmethod
    def row_length(self) -> float:
        """Mean number of stored entries of a row."""

    @property
    def device(self) -> torch.device:
        """Where the numbers lie."""
        return self.tensors()[0].device

    @property
    def dtype(self) -> torch.dtype:
        """Their precision."""
        return self.tensors()[0].dtype

    def lengths(self) -> Tensor:
        """Return the squared length of each row."""
        every = torch.arange(len(self), device=self.device)
        return self.dots(self, every, every)


def to_device(array: np.ndarray, device: str | torch.device) -> Tensor:
    """Return a tensor on the device; torch refuses to share arrays that may not be written."""
    own = np.require(array, requirements=["C", "W"])
    return torch.from_numpy(own).to(device)


def block_bytes_of(device: torch.device, on_host: int = BLOCK_BYTES) -> int:
    """Return the memory for one block of products on a device."""
    return on_host if device.type == "cpu" else DEVICE_BYTES


def entries_at_once(device: torch.device) -> int:
    """Return how many entries of pairs are looked at together on a device."""
    return _ENTRIES if device.type == "cpu" else 256 * _ENTRIES
