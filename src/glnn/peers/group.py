"""Processes that ``torchrun`` started, talking through ``torch.distributed``."""

import contextlib
import datetime
import os
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor

from glnn.exceptions import GlnnError, InputError, PeerError, SaidByPeerError
from glnn.peers.base import ALONE, Peers, Reduction, T

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
