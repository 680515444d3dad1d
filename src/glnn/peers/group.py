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
from glnn.peers.base import ALONE, Peers

PATIENCE = datetime.timedelta(minutes=30)
"""How long a process waits for a silent one. One that died is noticed at once."""

_HEADER = 8  # numbers that describe an array: its type, its dimensions, its shape
_TYPES = [np.dtype(name) for name in ("f4", "f8", "i4", "i8", "u1", "?")]


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
    finally:
        with contextlib.suppress(RuntimeError):
            dist.destroy_process_group()
        _on_end(before)


class Group(Peers):
    """One of several processes; see :class:`Peers` for what each method does.

    Numpy arrays travel over gloo, tensors over the backend of their device.
    """

    def __init__(self, rank: int, size: int) -> None:
        self.rank, self.size = rank, size

    def total(self, part: np.ndarray) -> np.ndarray:  # noqa: D102
        summed = torch.from_numpy(np.array(part, copy=True))
        return self.total_(summed).numpy()

    def total_number(self, part: float | int) -> float:  # noqa: D102
        return float(self.total_(torch.tensor(part, dtype=torch.float64)))

    def largest(self, part: float) -> float:  # noqa: D102
        number = torch.tensor(part, dtype=torch.float64)
        with _clearly():
            dist.all_reduce(number, dist.ReduceOp.MAX)
        return float(number)

    def same(self, number: float) -> float:  # noqa: D102
        shared = torch.tensor(number, dtype=torch.float64)
        with _clearly():
            dist.broadcast(shared, 0)
        return float(shared)

    def total_(self, part: Tensor) -> Tensor:  # noqa: D102
        with _clearly():
            dist.all_reduce(part)
        return part

    def told(self, array: np.ndarray | None, speaker: int) -> np.ndarray:  # noqa: D102
        header = torch.zeros(_HEADER, dtype=torch.int64)
        if self.rank == speaker:
            assert array is not None
            header = _header(array)
        with _clearly():
            dist.broadcast(header, speaker)
        if self.rank != speaker:
            array = _empty_like(header)
        assert array is not None
        if array.size:
            with _clearly():
                dist.broadcast(_as_bytes(array), speaker)
        return array

    def swapped(self, parts: list[np.ndarray]) -> list[np.ndarray]:  # noqa: D102
        received = list(parts)
        for shift in range(1, self.size):
            to, source = (self.rank + shift) % self.size, (self.rank - shift) % self.size
            header = torch.zeros(_HEADER, dtype=torch.int64)
            self.rotated(_header(parts[to]), header, shift)
            received[source] = _empty_like(header)
            self.rotated(_as_bytes(parts[to]), _as_bytes(received[source]), shift)
        return received

    def rotated(self, sent: Tensor, received: Tensor, shift: int) -> Tensor:  # noqa: D102
        to, source = (self.rank + shift) % self.size, (self.rank - shift) % self.size
        steps = []
        if sent.numel():
            steps.append(dist.P2POp(dist.isend, sent.contiguous(), to))
        if received.numel():
            steps.append(dist.P2POp(dist.irecv, received, source))
        with _clearly():
            for work in dist.batch_isend_irecv(steps) if steps else []:
                work.wait()
        return received


def agreed(peers: Peers, prepare: Callable[[], object]) -> None:
    """Run what may refuse the input; if it does anywhere, all end, and the first one says why."""
    problem: Exception | None = None
    try:
        prepare()
    except (GlnnError, OSError, MemoryError) as error:
        problem = error
    failed = np.zeros(peers.size, dtype=np.int64)
    failed[peers.rank] = problem is not None
    failed = peers.total(failed)
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


def _header(array: np.ndarray) -> Tensor:
    if array.dtype not in _TYPES or array.ndim > _HEADER - 2:
        raise InputError(f"arrays of type {array.dtype} cannot travel between processes.")
    numbers = [_TYPES.index(array.dtype), array.ndim, *array.shape]
    return torch.tensor(numbers + [0] * (_HEADER - len(numbers)), dtype=torch.int64)


def _empty_like(header: Tensor) -> np.ndarray:
    kind, n_dimensions, *shape = header.tolist()
    return np.empty(shape[:n_dimensions], dtype=_TYPES[kind])


def _as_bytes(array: np.ndarray) -> Tensor:
    """Return the array's memory; a copy where it is not contiguous or must not be written."""
    whole = np.require(array, requirements=["C", "W"])
    return torch.from_numpy(whole.reshape(-1).view(np.uint8))
