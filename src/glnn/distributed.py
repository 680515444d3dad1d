"""Communication between the processes of one fit.

A matrix with one row a node is split into contiguous blocks of rows, one a process
(:class:`Partition`). :class:`Peers` has the collective operations of ``torch.distributed``; with a
single process they return their input. :class:`RowExchange` fetches rows of other processes.
"""

import contextlib
import datetime
import itertools
import os
import signal
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, TypeVar

import numpy as np
import scipy.sparse as sp
import torch
import torch.distributed as dist
from jaxtyping import Float
from torch import Tensor

from glnn.exceptions import GlnnError, InputError, PeerError, PeerInputError

Reduction = Literal["sum", "max"]
T = TypeVar("T", float, np.ndarray, Tensor)
A = TypeVar("A", np.ndarray, Tensor)
V = TypeVar("V")


class Peers:
    """Collective operations of a single process; base class of those of several.

    Methods are named as in ``torch.distributed``. All processes must call them in the same order.
    Numbers, NumPy arrays and tensors can be sent.
    """

    rank: int = 0
    size: int = 1

    def all_reduce(self, part: T, op: Reduction = "sum") -> T:
        """Return the sum (or maximum) over all processes; all parts must have the same shape."""
        return part

    def broadcast(self, part: T) -> T:
        """Return the part of process 0."""
        return part

    def all_gather(self, part: A) -> list[A]:
        """Return the parts of all processes in the order of ranks; their lengths may differ."""
        return self.all_to_all([part] * self.size)

    def all_to_all(self, parts: list[A]) -> list[A]:
        """Send part ``q`` to process ``q``; return the parts received, in the order of ranks.

        Parts may differ in length, but not in their type and further dimensions.
        """
        return parts

    def all_to_all_(self, received: list[Tensor], sent: list[Tensor]) -> None:
        """Send tensor ``q`` to process ``q``; fill ``received``, which has the shapes that arrive.

        The entries of this process itself are ignored.
        """


SINGLE_PROCESS = Peers()


@dataclass(frozen=True, eq=False)
class Partition:
    r"""Contiguous blocks of rows of nearly equal heights, one for each process.

    A pair of nodes :math:`i \le j` belongs to the owner of row ``i`` if ``i + j`` is even, and to
    the owner of row ``j`` otherwise. So all processes have about the same number of pairs, and
    each pair has an end among the rows of its process.

    Examples
    --------
    >>> Partition(5).rows
    slice(0, 5, None)
    """

    n_nodes: int  # number of all nodes, over all processes
    peers: Peers = SINGLE_PROCESS

    def __post_init__(self) -> None:
        if self.n_nodes < self.peers.size:
            raise InputError(
                f"a fit over {self.peers.size} processes must have at least as many rows, "
                f"got {self.n_nodes}. Start fewer processes."
            )

    @cached_property
    def bounds(self) -> np.ndarray:
        """First row of every block, followed by the number of nodes."""
        size = self.peers.size
        return self.n_nodes * np.arange(size + 1, dtype=np.int64) // size

    @property
    def is_split(self) -> bool:
        """Whether there are several processes."""
        return self.peers.size > 1

    @property
    def start(self) -> int:
        """First row of this process."""
        return int(self.bounds[self.peers.rank])

    @property
    def stop(self) -> int:
        """Row after the last one of this process."""
        return int(self.bounds[self.peers.rank + 1])

    @property
    def n_rows(self) -> int:
        """Number of rows of this process."""
        return self.stop - self.start

    @property
    def rows(self) -> slice:
        """Rows of this process."""
        return slice(self.start, self.stop)

    def owners(self, nodes: A) -> A:
        """Return the process that owns each node's row."""
        if not isinstance(nodes, Tensor):
            return np.searchsorted(self.bounds[1:], nodes, side="right")
        bounds = torch.as_tensor(self.bounds[1:], device=nodes.device)
        return torch.searchsorted(bounds, nodes, right=True)

    def pair_owners(self, i: Tensor, j: Tensor) -> Tensor:
        """Return the process that owns each pair, given in either order."""
        low, high = torch.minimum(i, j), torch.maximum(i, j)
        return self.owners(torch.where((low + high) % 2 == 0, low, high))

    def is_local(self, nodes: np.ndarray) -> np.ndarray:
        """Return for each node whether this process owns its row."""
        return np.asarray((nodes >= self.start) & (nodes < self.stop))

    def sum(self, part: T) -> T:
        """Return the sum over all processes."""
        return self.peers.all_reduce(part)

    def max(self, part: T) -> T:
        """Return the maximum over all processes."""
        return self.peers.all_reduce(part, "max")

    def agree(self, part: T) -> T:
        """Return process 0's value: rounding may differ where a choice depends on it."""
        return self.peers.broadcast(part)

    def all_gather(self, rows: A) -> A:
        """Return a matrix over all nodes; each process gives its rows of it."""
        if not self.is_split:
            return rows
        return _concatenate(self.peers.all_gather(rows))

    def exchange(self, owner: A, *parts: A) -> tuple[A, ...]:
        """Send each entry of some lists to its owner; return those received, in order of ranks."""
        if not self.is_split:
            return parts
        masks = [owner == rank for rank in range(self.peers.size)]
        lists = ([part[mask] for mask in masks] for part in parts)
        return tuple(_concatenate(self.peers.all_to_all(part)) for part in lists)

    def exchange_pairs(self, i: Tensor, j: Tensor, *parts: Tensor) -> tuple[Tensor, ...]:
        """Send each entry of some lists to the process that owns its pair (i, j)."""
        return self.exchange(self.pair_owners(i, j), *parts) if self.is_split else parts

    def row_sums(self, matrix: Any) -> np.ndarray:
        """Return the sums of all rows; each process gives its rows of the matrix."""
        return self.all_gather(np.asarray(matrix.sum(1), dtype=np.float64).ravel())

    def rows_of(self, rows: np.ndarray, nodes: np.ndarray) -> np.ndarray:
        """Return the rows of some nodes in every process, given this process's rows."""
        found = np.zeros((len(nodes), *rows.shape[1:]), dtype=rows.dtype)
        local = self.is_local(nodes)
        found[local] = rows[nodes[local] - self.start]
        return self.peers.all_reduce(found)

    def gather(self, matrix: Any) -> Any:
        """Return the whole matrix in process 0; all others keep their rows."""
        if not self.is_split or matrix is None:
            return matrix
        is_sparse = sp.issparse(matrix)
        parts = (matrix.data, matrix.indices, np.diff(matrix.indptr)) if is_sparse else (matrix,)
        whole = [self.exchange(np.zeros(len(part)), part)[0] for part in parts]
        if self.peers.rank:
            return matrix
        if not is_sparse:
            return whole[0]
        starts = np.concatenate([[0], np.cumsum(whole[2])])
        return sp.csr_matrix((*whole[:2], starts), shape=(self.n_nodes, matrix.shape[1]))

    def transpose(self, matrix: sp.csr_matrix) -> sp.csr_matrix:
        """Return this process's rows of the transpose of a matrix with sharded rows."""
        if not self.is_split:
            return sp.csr_matrix(matrix.T)
        coo = sp.coo_matrix(matrix)
        parts = (coo.col.astype(np.int64), coo.row.astype(np.int64) + self.start, coo.data)
        columns, rows, data = self.exchange(self.owners(coo.col), *parts)
        return sp.csr_matrix((data, (columns - self.start, rows)), shape=matrix.shape)


# Processes started by ``torchrun``

TIMEOUT = datetime.timedelta(minutes=30)  # for a process that hangs; one that died is seen at once


@contextlib.contextmanager
def join_processes(device: str = "cpu") -> Iterator[Peers]:
    """Join the processes that ``torchrun`` started until the end of the block.

    Without ``torchrun`` this is a single process. Tensors on ``cpu`` are sent by gloo, those on
    ``cuda`` by NCCL.
    """
    if int(os.environ.get("WORLD_SIZE", "1")) == 1 or "RANK" not in os.environ:
        yield SINGLE_PROCESS
        return
    backend = "gloo"
    if torch.device(device).type == "cuda":
        torch.cuda.set_device(device)
        backend = "cpu:gloo,cuda:nccl"
    with _report_lost_peers():
        dist.init_process_group(backend, timeout=TIMEOUT)
    before = _set_sigterm_handler(_handle_sigterm)
    try:
        yield TorchPeers(dist.get_rank(), dist.get_world_size())
        with _report_lost_peers():
            dist.barrier()  # no process may leave while another still sends
    except GlnnError:
        before = signal.SIG_IGN  # torchrun's SIGTERM must not cut off the error line
        raise
    finally:
        with contextlib.suppress(RuntimeError):
            dist.destroy_process_group()
        _set_sigterm_handler(before)


class TorchPeers(Peers):
    """Several processes, connected by ``torch.distributed``."""

    def __init__(self, rank: int, size: int) -> None:
        self.rank, self.size = rank, size

    def all_reduce(self, part: T, op: Reduction = "sum") -> T:  # noqa: D102
        tensor = _to_tensor(part).clone()
        with _report_lost_peers():
            dist.all_reduce(tensor, dist.ReduceOp.MAX if op == "max" else dist.ReduceOp.SUM)
        return _from_tensor(part, tensor)

    def broadcast(self, part: T) -> T:  # noqa: D102
        if isinstance(part, float | int):
            return self.all_reduce(part if self.rank == 0 else 0.0)
        return self.all_gather(part)[0]  # lengths may differ

    def all_to_all(self, parts: list[A]) -> list[A]:  # noqa: D102
        sent = [_to_tensor(part).contiguous() for part in parts]
        counts = [torch.tensor([len(part)]) for part in parts]
        lengths = [torch.zeros_like(count) for count in counts]
        self.all_to_all_(lengths, counts)
        received = [one.new_empty(int(n), *one.shape[1:]) for one, n in zip(sent, lengths)]
        received[self.rank] = sent[self.rank]
        self.all_to_all_(list(map(_as_bytes, received)), list(map(_as_bytes, sent)))
        return [_from_tensor(part, tensor) for part, tensor in zip(parts, received)]

    def all_to_all_(self, received: list[Tensor], sent: list[Tensor]) -> None:  # noqa: D102
        steps = []  # empty tensors are skipped
        for shift in range(1, self.size):
            to, source = (self.rank + shift) % self.size, (self.rank - shift) % self.size
            if sent[to].numel():
                steps.append(dist.P2POp(dist.isend, sent[to].contiguous(), to))
            if received[source].numel():
                steps.append(dist.P2POp(dist.irecv, received[source], source))
        with _report_lost_peers():
            for work in dist.batch_isend_irecv(steps) if steps else []:
                work.wait()


def run_everywhere(peers: Peers, prepare: Callable[[], V]) -> V:
    """Run a function that may reject its input; if it fails in one process, raise in all.

    Returns the function's value. The first process that failed raises its own error, all others
    :class:`PeerInputError`.
    """
    problem: Exception | None = None
    value: Any = None
    try:
        value = prepare()
    except (GlnnError, OSError, MemoryError) as error:
        problem = error
    own = peers.size if problem is None else peers.rank
    first = -int(peers.all_reduce(float(-own), "max"))  # the lowest rank that failed
    if first == peers.size:
        return value  # type: ignore[no-any-return]
    if problem is not None and first == peers.rank:
        raise problem
    raise PeerInputError(f"process {first} has rejected the input.")


@contextlib.contextmanager
def _report_lost_peers() -> Iterator[None]:
    """Raise one clear error where a process has ended or hangs."""
    try:
        yield
    except RuntimeError as error:
        _set_sigterm_handler(signal.SIG_IGN)  # torchrun sends SIGTERM next, and we end anyway
        cause = "did not answer in time" if "imeout" in str(error) else "has ended"
        raise _peer_error(cause) from error


def _peer_error(cause: str) -> PeerError:
    rank, size = os.environ.get("RANK", "?"), os.environ.get("WORLD_SIZE", "?")
    return PeerError(
        f"another process of this fit {cause}, so process {rank} of {size} ends too. "
        "Files that were written before are whole; start the same command again."
    )


def _handle_sigterm(number: int, _: object) -> None:
    """Raise on SIGTERM, which torchrun sends to all processes when one has ended."""
    _set_sigterm_handler(signal.SIG_IGN)
    raise _peer_error("has ended")


def _set_sigterm_handler(handler: Any) -> Any:
    """Set the handler of SIGTERM and return the old one; only the main thread may do so."""
    if threading.current_thread() is threading.main_thread():
        return signal.signal(signal.SIGTERM, handler)
    return signal.SIG_DFL


def _concatenate(parts: list[A]) -> A:
    every: list[Any] = parts
    return torch.cat(every) if isinstance(parts[0], Tensor) else np.concatenate(every)


def _to_tensor(part: float | np.ndarray | Tensor) -> Tensor:
    if isinstance(part, Tensor):
        return part
    if isinstance(part, np.ndarray):
        return torch.from_numpy(np.require(part, requirements=["C", "W"]))
    return torch.tensor(part, dtype=torch.float64)


def _from_tensor(part: T, tensor: Tensor) -> T:
    """Return the tensor as a number, array or tensor, as ``part`` is."""
    if isinstance(part, Tensor):
        return tensor
    return tensor.numpy() if isinstance(part, np.ndarray) else float(tensor)


def _as_bytes(tensor: Tensor) -> Tensor:
    """Return the bytes of a contiguous tensor, which share its memory."""
    flat = tensor.view(-1)
    return flat.view(torch.uint8) if flat.numel() else flat


MAX_FETCH_BYTES = 2**24  # up to this size, all columns of fetched rows come in one message


class RowExchange:
    """Fetches the same rows of other processes repeatedly; their indices are sent only once.

    ``wanted`` are the sorted indices of the rows that this process needs.
    """

    def __init__(
        self, partition: Partition, wanted: np.ndarray, device: str | torch.device = "cpu"
    ) -> None:
        self._peers, bounds = partition.peers, partition.bounds
        self._ends: list[int] = np.searchsorted(wanted, bounds).tolist()
        parts = np.split(wanted, self._ends[1:-1])
        numbers = [(part - first).astype(np.int64) for part, first in zip(parts, bounds)]
        requested = self._peers.all_to_all(numbers)
        self._requested = [torch.from_numpy(rows).to(device) for rows in requested]
        self._smallest_block = int(bounds[1])
        self._max_wanted = int(self._peers.all_reduce(float(len(wanted)), "max"))

    def fetch(self, x: Float[Tensor, "rows d"]) -> Iterator[Float[Tensor, "wanted k"]]:
        """Yield the wanted rows of a sharded tensor; ``x`` are the rows of this process.

        They come in blocks of columns, the same in every process. A block is larger than
        ``MAX_FETCH_BYTES`` only if the smallest block of rows is, too.
        """
        width, n_bytes = x.shape[1], x.element_size()
        room = max(MAX_FETCH_BYTES, self._smallest_block * width * n_bytes)
        step = max(1, min(width, room // max(1, self._max_wanted * n_bytes)))
        for first in range(0, max(1, width), step):
            sent = [x[rows, first : first + step] for rows in self._requested]
            result = x.new_empty(self._ends[-1], sent[0].shape[1])
            places = [result[a:b] for a, b in itertools.pairwise(self._ends)]
            places[self._peers.rank].copy_(sent[self._peers.rank])
            self._peers.all_to_all_(places, sent)
            yield result
