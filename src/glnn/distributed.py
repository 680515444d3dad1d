"""The processes of one fit: what they tell each other, and which rows are whose."""

import contextlib
import datetime
import os
import signal
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Generic, Literal, TypeVar, overload

import numpy as np
import scipy.sparse as sp
import torch
import torch.distributed as dist
from jaxtyping import Float
from torch import Tensor

from glnn.exceptions import GlnnError, InputError, PeerError, SaidByPeerError

# --- base: The contract of processes that compute together, and the one process that computes alon

Reduction = Literal["sum", "max"]
T = TypeVar("T", float, np.ndarray, Tensor)


class Peers:
    """A process alone: whatever is reduced, gathered or exchanged is its own part.

    Code that speaks to its peers therefore runs in one process as if they were not there. The
    words are those of ``torch.distributed``. Every method is called by all processes, in the same
    order; numbers, NumPy arrays and tensors may travel, and none is changed in place but by the
    methods whose name ends with ``_``.

    Examples
    --------
    >>> ALONE.all_reduce(np.array([1.0, 2.0]))
    array([1., 2.])
    """

    rank: int = 0
    size: int = 1

    def all_reduce(self, part: T, op: Reduction = "sum") -> T:
        """Return the sum (or maximum) of everyone's parts, which have one shape."""
        return part

    def all_reduce_(self, part: Tensor) -> Tensor:
        """Put the sum of everyone's tensors into this one, and return it."""
        return part

    def broadcast(self, part: T | None, source: int = 0) -> T:
        """Return the part of ``source``; what the others give is not looked at.

        Also where rounding may differ between processes and a choice depends on it.
        """
        assert part is not None  # alone, the source is oneself
        return part

    def all_gather(self, part: T) -> list[T]:
        """Return everyone's parts in the order of processes; lengths may differ."""
        return [part]

    def all_to_all(self, parts: list[T]) -> list[T]:
        """Give part ``q`` to process ``q``; return what each process gave to this one."""
        return parts

    def all_to_all_(self, received: list[Tensor], sent: list[Tensor]) -> None:
        """Give tensor ``q`` to process ``q``; fill ``received``, all messages at once.

        Places for oneself are not looked at. Shapes must be known: nothing else travels.
        """

    def ring_shift(self, sent: Tensor, received: Tensor, shift: int = 1) -> Tensor:
        """Give a tensor to the process ``shift`` further on; fill one from ``shift`` before."""
        raise AssertionError("there is nobody to shift to")


ALONE = Peers()
"""The one process of an ordinary fit."""


# --- partition: Which rows and which pairs of nodes belong to which process


@dataclass(frozen=True, eq=False)
class Partition:
    r"""Contiguous blocks of rows, one a process, of nearly equal heights.

    A pair of nodes :math:`i \le j` belongs to the owner of row ``i`` if ``i + j`` is even, of row
    ``j`` otherwise: so each process holds about as many pairs as every other, and each of its
    pairs has an end among its rows.

    Examples
    --------
    >>> whole = Partition(5, Peers())
    >>> whole.rows
    slice(0, 5, None)
    """

    n_nodes: int
    peers: Peers

    def __post_init__(self) -> None:
        if self.n_nodes < self.peers.size:
            raise InputError(
                f"a fit over {self.peers.size} processes must have at least as many rows, "
                f"got {self.n_nodes}. Start fewer processes."
            )

    @cached_property
    def bounds(self) -> np.ndarray:
        """First row of every block, and the number of nodes."""
        size = self.peers.size
        return self.n_nodes * np.arange(size + 1, dtype=np.int64) // size

    @property
    def start(self) -> int:
        """First row of this process."""
        return int(self.bounds[self.peers.rank])

    @property
    def stop(self) -> int:
        """First row after those of this process."""
        return int(self.bounds[self.peers.rank + 1])

    @property
    def n_rows(self) -> int:
        """Number of rows of this process."""
        return self.stop - self.start

    @property
    def rows(self) -> slice:
        """The rows of this process."""
        return slice(self.start, self.stop)

    def owner(self, nodes: np.ndarray) -> np.ndarray:
        """Return the process that has each node's row."""
        return np.searchsorted(self.bounds, nodes, side="right") - 1

    def has(self, nodes: np.ndarray) -> np.ndarray:
        """Say which nodes' rows are here."""
        return np.asarray((nodes >= self.start) & (nodes < self.stop))

    def counts(self, count: int) -> np.ndarray:
        """Return everyone's counts."""
        counts = np.zeros(self.peers.size, dtype=np.int64)
        counts[self.peers.rank] = count
        return self.peers.all_reduce(counts)

    def everyone(self, rows: np.ndarray) -> np.ndarray:
        """Return a vector over all nodes of which each process gives its rows."""
        whole = np.zeros((self.n_nodes, *rows.shape[1:]), dtype=rows.dtype)
        whole[self.rows] = rows
        return self.peers.all_reduce(whole)

    def block_of(self, matrix: Any, speaker: int) -> Any:
        """Return the speaker's rows of a matrix, dense or CSR, of which each has its own."""
        mine = self.peers.rank == speaker
        if not sp.issparse(matrix):
            return self.peers.broadcast(np.ascontiguousarray(matrix) if mine else None, speaker)
        names = ("data", "indices", "indptr")
        parts = [self.peers.broadcast(getattr(matrix, n) if mine else None, speaker) for n in names]
        height = int(self.bounds[speaker + 1] - self.bounds[speaker])
        return sp.csr_matrix(tuple(parts), shape=(height, matrix.shape[1]))

    def collected(self, matrix: Any) -> Any:
        """Return the whole matrix in process 0, ``None`` elsewhere."""
        if self.peers.size == 1:
            return matrix
        blocks = []
        for speaker in range(self.peers.size):
            block = self.block_of(matrix, speaker)
            if self.peers.rank == 0:
                blocks.append(block)
        if not blocks:
            return None
        if sp.issparse(matrix):
            whole = sp.csr_matrix(sp.vstack(blocks, format="csr"))
            whole.sort_indices()
            return whole
        return np.concatenate(blocks)


# --- group: Processes that ``torchrun`` started, talking through ``torch.distributed``

PATIENCE = datetime.timedelta(minutes=30)
"""How long a process waits for a silent one. One that died is noticed at once."""

_HEADER = 8  # numbers that describe an array: its type, its dimensions, its shape
_TYPES = [torch.float32, torch.float64, torch.int32, torch.int64, torch.uint8, torch.bool]


def is_started_by_torchrun() -> bool:
    """Say whether this process is one of several."""
    return int(os.environ.get("WORLD_SIZE", "1")) > 1 and "RANK" in os.environ


@contextlib.contextmanager
def joined_peers(device: str = "cpu") -> Iterator[Peers]:
    """Join the other processes inside the block; alone if there are none."""
    if not is_started_by_torchrun():
        yield ALONE
        return
    backend = "gloo"
    if torch.device(device).type == "cuda":
        torch.cuda.set_device(device)
        backend = "cpu:gloo,cuda:nccl"
    with _clearly():
        dist.init_process_group(backend, timeout=PATIENCE)
    before = _on_end(_end)
    try:
        yield Group(dist.get_rank(), dist.get_world_size())
        with _clearly():
            dist.barrier()  # nobody leaves while another still talks
    except GlnnError:
        before = signal.SIG_IGN  # torchrun's request to end must not cut off the line that says why
        raise
    finally:
        with contextlib.suppress(RuntimeError):
            dist.destroy_process_group()
        _on_end(before)


class Group(Peers):
    """One of several processes; see :class:`Peers` for what each method does.

    Numbers and NumPy arrays travel over gloo, tensors over the backend of their device.
    """

    def __init__(self, rank: int, size: int) -> None:
        self.rank, self.size = rank, size

    def all_reduce(self, part: T, op: Reduction = "sum") -> T:  # noqa: D102
        tensor = _tensor(part).clone()
        with _clearly():
            dist.all_reduce(tensor, dist.ReduceOp.MAX if op == "max" else dist.ReduceOp.SUM)
        return _like(part, tensor)

    def all_reduce_(self, part: Tensor) -> Tensor:  # noqa: D102
        with _clearly():
            dist.all_reduce(part)
        return part

    def broadcast(self, part: T | None, source: int = 0) -> T:  # noqa: D102
        if isinstance(part, float | int):
            shared = _tensor(part).clone()
            with _clearly():
                dist.broadcast(shared, source)
            return _like(part, shared)
        header = torch.zeros(_HEADER, dtype=torch.int64)
        if self.rank == source:
            assert part is not None
            header = _header(part)
        with _clearly():
            dist.broadcast(header, source)
        result: Any = part if self.rank == source else _empty(header, part)
        memory = _memory(result)
        if memory.numel():
            with _clearly():
                dist.broadcast(memory, source)
        return result  # type: ignore[no-any-return]

    def all_gather(self, part: T) -> list[T]:  # noqa: D102
        return self.all_to_all([part] * self.size)

    def all_to_all(self, parts: list[T]) -> list[T]:  # noqa: D102
        received: list[Any] = list(parts)
        for shift in range(1, self.size):
            to, source = (self.rank + shift) % self.size, (self.rank - shift) % self.size
            if isinstance(parts[to], float | int):
                number = torch.empty((), dtype=torch.float64)
                self.ring_shift(_tensor(parts[to]), number, shift)
                received[source] = _like(parts[to], number)
                continue
            header = torch.zeros(_HEADER, dtype=torch.int64)
            self.ring_shift(_header(parts[to]), header, shift)
            arrived = _empty(header, parts[to])
            self.ring_shift(_memory(parts[to]), _memory(arrived), shift)
            received[source] = arrived
        return received

    def all_to_all_(self, received: list[Tensor], sent: list[Tensor]) -> None:  # noqa: D102
        others = [(self.rank + shift) % self.size for shift in range(1, self.size)]
        _exchange([(sent[q], q) for q in others], [(received[q], q) for q in others])

    def ring_shift(self, sent: Tensor, received: Tensor, shift: int = 1) -> Tensor:  # noqa: D102
        to, source = (self.rank + shift) % self.size, (self.rank - shift) % self.size
        _exchange([(sent, to)], [(received, source)])
        return received


def _exchange(sends: list[tuple[Tensor, int]], receives: list[tuple[Tensor, int]]) -> None:
    """Send tensors to processes and fill others from them; empty ones do not travel."""
    steps = [dist.P2POp(dist.isend, part.contiguous(), to) for part, to in sends if part.numel()]
    steps += [dist.P2POp(dist.irecv, part, source) for part, source in receives if part.numel()]
    with _clearly():
        for work in dist.batch_isend_irecv(steps) if steps else []:
            work.wait()


def agreed(peers: Peers, prepare: Callable[[], object]) -> None:
    """Run what may refuse the input; if it does anywhere, all end, and the first one says why."""
    problem: Exception | None = None
    try:
        prepare()
    except (GlnnError, OSError, MemoryError) as error:
        problem = error
    failed = np.zeros(peers.size, dtype=np.int64)
    failed[peers.rank] = problem is not None
    failed = peers.all_reduce(failed)
    if not failed.any():
        return
    first = int(np.flatnonzero(failed)[0])
    if problem is not None and first == peers.rank:
        raise problem
    raise SaidByPeerError(f"process {first} has refused the input.")


@contextlib.contextmanager
def _clearly() -> Iterator[None]:
    """Turn the news that a process is gone into one line."""
    try:
        yield
    except RuntimeError as error:
        _on_end(signal.SIG_IGN)  # torchrun's request comes next, and we end anyway
        raise _ended("did not answer in time" if "imeout" in str(error) else "has ended") from error


def _ended(cause: str) -> PeerError:
    rank, size = os.environ.get("RANK", "?"), os.environ.get("WORLD_SIZE", "?")
    return PeerError(
        f"another process of this fit {cause}, so process {rank} of {size} ends too. "
        "Files that were written before are whole; start the same command again."
    )


def _end(number: int, _: object) -> None:
    """Follow torchrun, which asks all processes to end when one has."""
    _on_end(signal.SIG_IGN)
    raise _ended("has ended")


def _on_end(handler: Any) -> Any:
    """Set what happens when this process is asked to end; only its main thread may."""
    if threading.current_thread() is threading.main_thread():
        return signal.signal(signal.SIGTERM, handler)
    return signal.SIG_DFL


def _tensor(part: float | np.ndarray | Tensor) -> Tensor:
    if isinstance(part, Tensor):
        return part
    if isinstance(part, np.ndarray):
        return torch.from_numpy(np.require(part, requirements=["C", "W"]))
    return torch.tensor(part, dtype=torch.float64)


def _like(part: T, tensor: Tensor) -> T:
    """Return the tensor in the form that ``part`` has."""
    if isinstance(part, Tensor):
        return tensor
    return tensor.numpy() if isinstance(part, np.ndarray) else float(tensor)


def _header(part: Any) -> Tensor:
    tensor = _tensor(part)
    if tensor.dtype not in _TYPES or tensor.ndim > _HEADER - 2:
        raise InputError(f"arrays of type {part.dtype} cannot travel between processes.")
    numbers = [_TYPES.index(tensor.dtype), tensor.ndim, *tensor.shape]
    return torch.tensor(numbers + [0] * (_HEADER - len(numbers)), dtype=torch.int64)


def _empty(header: Tensor, like: Any) -> Any:
    """Return room for what a header describes: a tensor beside a tensor, else an array."""
    kind, n_dimensions, *shape = header.tolist()
    device = like.device if isinstance(like, Tensor) else "cpu"
    tensor = torch.empty(shape[:n_dimensions], dtype=_TYPES[kind], device=device)
    return tensor if isinstance(like, Tensor) else tensor.numpy()


def _memory(part: Any) -> Tensor:
    """Return the bytes of an array; a copy where it is not contiguous or must not be written."""
    flat = _tensor(part).contiguous().view(-1)
    return flat.view(torch.uint8) if flat.numel() else flat


# --- once: A property that is computed once and may talk to other processes meanwhile

V = TypeVar("V")


class computed_once(Generic[V]):  # noqa: N801 # used like a function
    """Like ``functools.cached_property``, without its lock.

    That of Python 3.11 is one for all instances of a class: ranks that run as threads of one
    process would wait for each other inside it.

    Examples
    --------
    >>> class Circle:
    ...     @computed_once
    ...     def area(self):
    ...         return 3.0
    >>> circle = Circle()
    >>> circle.area is circle.area
    True
    """

    def __init__(self, compute: Callable[[Any], V]) -> None:
        self._compute, self.__doc__ = compute, compute.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> "computed_once[V]": ...

    @overload
    def __get__(self, instance: object, owner: type) -> V: ...

    def __get__(self, instance: object | None, owner: type) -> "computed_once[V] | V":
        if instance is None:
            return self
        value = self._compute(instance)
        instance.__dict__[self._name] = value  # found before this the next time
        return value


# --- row_exchange: Rows of spread tensors that this process needs, fetched from those who have the

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
