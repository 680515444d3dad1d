"""Communication between the processes of one fit.

A matrix with one row a node is split into contiguous blocks of rows, one a process
(:class:`Partition`). :class:`Peers` has the collective operations of ``torch.distributed``; with a
single process they return their input. :class:`RowExchange` fetches rows of other processes.
"""

import contextlib
import datetime
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
V = TypeVar("V")


class Peers:
    """Collective operations of a single process; base class of those of several.

    Methods are named as in ``torch.distributed``. All processes must call them in the same order.
    Numbers, NumPy arrays and tensors can be sent; only methods whose name ends with ``_`` change
    their arguments.
    """

    rank: int = 0
    size: int = 1

    def all_reduce(self, part: T, op: Reduction = "sum") -> T:
        """Return the sum (or maximum) over all processes; all parts must have the same shape."""
        return part

    def all_reduce_(self, part: Tensor) -> Tensor:
        """Replace the tensor by its sum over all processes, and return it."""
        return part

    def broadcast(self, part: T | None, source: int = 0) -> T:
        """Return the part of process ``source``; the arguments of all others are ignored."""
        assert part is not None  # a single process is its own source
        return part

    def all_gather(self, part: T) -> list[T]:
        """Return the parts of all processes in the order of ranks; their lengths may differ."""
        return [part]

    def all_to_all(self, parts: list[T]) -> list[T]:
        """Send part ``q`` to process ``q``; return the parts received, in the order of ranks."""
        return parts

    def all_to_all_(self, received: list[Tensor], sent: list[Tensor]) -> None:
        """Send tensor ``q`` to process ``q``; fill ``received``, which has the shapes that arrive.

        The entries of this process itself are ignored.
        """

    def ring_shift(self, sent: Tensor, received: Tensor, shift: int = 1) -> Tensor:
        """Send a tensor to rank + ``shift``; fill another one from rank - ``shift``."""
        raise AssertionError("a single process has no other process to send to")


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

    def all_gather(self, part: Tensor) -> Tensor:
        """Return the parts of all processes, concatenated in the order of their rows."""
        return torch.cat(self.peers.all_gather(part))

    def all_gather_count(self, count: int) -> np.ndarray:
        """Return the counts of all processes."""
        counts = np.zeros(self.peers.size, dtype=np.int64)
        counts[self.peers.rank] = count
        return self.peers.all_reduce(counts)

    def all_gather_rows(self, rows: np.ndarray) -> np.ndarray:
        """Return an array over all nodes; each process gives its rows of it."""
        if not self.is_split:
            return rows
        whole = np.zeros((self.n_nodes, *rows.shape[1:]), dtype=rows.dtype)
        whole[self.rows] = rows
        return self.peers.all_reduce(whole)

    def rows_of(self, rows: np.ndarray, nodes: np.ndarray) -> np.ndarray:
        """Return the rows of some nodes in every process, given this process's rows."""
        found = np.zeros((len(nodes), *rows.shape[1:]), dtype=rows.dtype)
        local = self.is_local(nodes)
        found[local] = rows[nodes[local] - self.start]
        return self.peers.all_reduce(found)

    def blocks(self, matrix: Any) -> Iterator[tuple[slice, Any]]:
        """Yield the rows of each process in turn, and the block of a sharded matrix with them."""
        names = ("data", "indices", "indptr") if sp.issparse(matrix) else ()
        parts = [getattr(matrix, name) for name in names] or [np.ascontiguousarray(matrix)]
        for source in range(self.peers.size):
            rows = slice(int(self.bounds[source]), int(self.bounds[source + 1]))
            own = parts if self.peers.rank == source else [None] * len(parts)
            sent = [self.peers.broadcast(part, source) for part in own]
            shape = (rows.stop - rows.start, matrix.shape[1]) if names else None
            yield rows, sp.csr_matrix(tuple(sent), shape=shape) if names else sent[0]

    def gather(self, matrix: Any) -> Any:
        """Return the whole matrix in process 0, ``None`` in all others."""
        if not self.is_split:
            return matrix
        blocks = [block for _, block in self.blocks(matrix) if self.peers.rank == 0]
        if not blocks:
            return None
        if not sp.issparse(matrix):
            return np.concatenate(blocks)
        whole = sp.csr_matrix(sp.vstack(blocks, format="csr"))
        whole.sort_indices()
        return whole

    def transpose(self, matrix: sp.csr_matrix) -> sp.csr_matrix:
        """Return this process's rows of the transpose of a matrix with sharded rows."""
        if not self.is_split:
            return sp.csr_matrix(matrix.T)
        coo = sp.coo_matrix(matrix)
        owner = np.searchsorted(self.bounds, coo.col, side="right") - 1
        parts = (coo.col.astype(np.int64), coo.row.astype(np.int64) + self.start, coo.data)
        columns, rows, data = (
            np.concatenate(
                self.peers.all_to_all([part[owner == rank] for rank in range(self.peers.size)])
            )
            for part in parts
        )
        return sp.csr_matrix((data, (columns - self.start, rows)), shape=matrix.shape)


# Processes started by ``torchrun``

TIMEOUT = datetime.timedelta(minutes=30)  # for a process that hangs; one that died is seen at once

_HEADER_LENGTH = 8  # dtype, number of dimensions and shape of an array, padded with zeros
_DTYPES = [torch.float32, torch.float64, torch.int32, torch.int64, torch.uint8, torch.bool]


def is_started_by_torchrun() -> bool:
    """Return whether ``torchrun`` has started this process as one of several."""
    return int(os.environ.get("WORLD_SIZE", "1")) > 1 and "RANK" in os.environ


@contextlib.contextmanager
def join_processes(device: str = "cpu") -> Iterator[Peers]:
    """Join the processes that ``torchrun`` started until the end of the block.

    Without ``torchrun`` this is a single process. Tensors on ``cpu`` are sent by gloo, those on
    ``cuda`` by NCCL.
    """
    if not is_started_by_torchrun():
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

    def all_reduce_(self, part: Tensor) -> Tensor:  # noqa: D102
        with _report_lost_peers():
            dist.all_reduce(part)
        return part

    def broadcast(self, part: T | None, source: int = 0) -> T:  # noqa: D102
        if isinstance(part, float | int):
            shared = _to_tensor(part).clone()
            with _report_lost_peers():
                dist.broadcast(shared, source)
            return _from_tensor(part, shared)
        is_source = self.rank == source
        header = _make_header(part) if is_source else torch.zeros(_HEADER_LENGTH, dtype=torch.int64)
        with _report_lost_peers():
            dist.broadcast(header, source)
        result: Any = part if is_source else _allocate(header, part)
        memory = _as_bytes(result)
        if memory.numel():
            with _report_lost_peers():
                dist.broadcast(memory, source)
        return result  # type: ignore[no-any-return]

    def all_gather(self, part: T) -> list[T]:  # noqa: D102
        return self.all_to_all([part] * self.size)

    def all_to_all(self, parts: list[T]) -> list[T]:  # noqa: D102
        received: list[Any] = list(parts)
        for shift in range(1, self.size):
            to, source = (self.rank + shift) % self.size, (self.rank - shift) % self.size
            header = torch.zeros(_HEADER_LENGTH, dtype=torch.int64)
            self.ring_shift(_make_header(parts[to]), header, shift)
            arrived = _allocate(header, parts[to])
            self.ring_shift(_as_bytes(parts[to]), _as_bytes(arrived), shift)
            received[source] = arrived
        return received

    def all_to_all_(self, received: list[Tensor], sent: list[Tensor]) -> None:  # noqa: D102
        others = [(self.rank + shift) % self.size for shift in range(1, self.size)]
        _send_and_receive([(sent[q], q) for q in others], [(received[q], q) for q in others])

    def ring_shift(self, sent: Tensor, received: Tensor, shift: int = 1) -> Tensor:  # noqa: D102
        to, source = (self.rank + shift) % self.size, (self.rank - shift) % self.size
        _send_and_receive([(sent, to)], [(received, source)])
        return received


def _send_and_receive(sends: list[tuple[Tensor, int]], receives: list[tuple[Tensor, int]]) -> None:
    """Send tensors to ranks and fill others from ranks; empty tensors are skipped."""
    steps = [dist.P2POp(dist.isend, part.contiguous(), to) for part, to in sends if part.numel()]
    steps += [dist.P2POp(dist.irecv, part, source) for part, source in receives if part.numel()]
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
    failed = np.zeros(peers.size, dtype=np.int64)
    failed[peers.rank] = problem is not None
    failed = peers.all_reduce(failed)
    if not failed.any():
        return value  # type: ignore[no-any-return]
    first = int(np.flatnonzero(failed)[0])
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
        raise _peer_error(
            "did not answer in time" if "imeout" in str(error) else "has ended"
        ) from error


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


def _make_header(part: Any) -> Tensor:
    tensor = _to_tensor(part)
    if tensor.dtype not in _DTYPES or tensor.ndim > _HEADER_LENGTH - 2:
        raise InputError(f"arrays of type {part.dtype} cannot be sent between processes.")
    numbers = [_DTYPES.index(tensor.dtype), tensor.ndim, *tensor.shape]
    return torch.tensor(numbers + [0] * (_HEADER_LENGTH - len(numbers)), dtype=torch.int64)


def _allocate(header: Tensor, like: Any) -> Any:
    """Return uninitialized memory as the header describes, a tensor or array as ``like`` is."""
    kind, n_dimensions, *shape = header.tolist()
    device = like.device if isinstance(like, Tensor) else "cpu"
    tensor = torch.empty(shape[:n_dimensions], dtype=_DTYPES[kind], device=device)
    return tensor if isinstance(like, Tensor) else tensor.numpy()


def _as_bytes(part: Any) -> Tensor:
    """Return the bytes of an array; a copy if it is not contiguous or is read-only."""
    flat = _to_tensor(part).contiguous().view(-1)
    return flat.view(torch.uint8) if flat.numel() else flat


class lazy_property(cached_property[V]):  # noqa: N801 # used like a function
    """``functools.cached_property`` without the lock that all instances share in Python 3.11.

    Ranks that run as threads and communicate inside the property would wait for it forever.
    """

    def __init__(self, compute: Callable[[Any], V]) -> None:
        super().__init__(compute)
        self.lock = contextlib.nullcontext()


MAX_FETCH_BYTES = 2**24  # up to this size, all columns of fetched rows come in one message


class RowExchange:
    """Fetches the same rows of other processes repeatedly; their indices are sent only once.

    ``wanted`` are the sorted indices of the rows that this process needs; ``None``: all rows.
    """

    def __init__(
        self,
        partition: Partition,
        wanted: np.ndarray | None = None,
        device: str | torch.device = "cpu",
    ) -> None:
        self.layout, self._peers = partition, partition.peers
        wanted = np.arange(partition.n_nodes) if wanted is None else wanted
        bounds = partition.bounds
        ends = np.searchsorted(wanted, bounds)
        self._ends: list[int] = ends.tolist()
        numbers = [
            (wanted[ends[q] : ends[q + 1]] - bounds[q]).astype(np.int64)
            for q in range(self._peers.size)
        ]
        requested = self._peers.all_to_all(numbers)
        self._requested = [torch.from_numpy(rows).to(device) for rows in requested]
        self.wanted = torch.from_numpy(wanted).to(device)
        self._max_wanted = int(self._peers.all_reduce(float(len(wanted)), "max"))

    def fetch(self, x: Float[Tensor, "rows d"]) -> Float[Tensor, "wanted d"]:
        """Return the wanted rows of a sharded tensor; ``x`` are the rows of this process."""
        if self._peers.size == 1:
            return x
        rank, ends = self._peers.rank, self._ends
        result = x.new_empty(ends[-1], x.shape[1])
        places = [result[ends[q] : ends[q + 1]] for q in range(self._peers.size)]
        places[rank].copy_(x[self._requested[rank]])
        sent = [x[rows] if q != rank else x[:0] for q, rows in enumerate(self._requested)]
        self._peers.all_to_all_(places, sent)
        return result

    def column_blocks(self, x: Float[Tensor, "rows d"]) -> list[slice]:
        """Return the columns to fetch together, the same in every process.

        A fetch is larger than ``MAX_FETCH_BYTES`` only if the smallest block of rows is, too.
        """
        width = x.shape[1]
        if self._peers.size == 1:
            return [slice(0, width)]
        room = max(MAX_FETCH_BYTES, int(self.layout.bounds[1]) * width * x.element_size())
        n_columns = max(1, min(width, room // max(1, self._max_wanted * x.element_size())))
        return [slice(first, first + n_columns) for first in range(0, width, n_columns)]
