import copy
import functools
import os
import shutil
import threading
from pathlib import Path

import numpy as np
import pytest
import torch

from glnn.peers import Peers


class ThreadPeers(Peers):
    """Several ranks as threads of one process: what they exchange is checked, not how fast."""

    def __init__(self, rank, size, slots, barrier):
        self.rank, self.size, self._slots, self._barrier = rank, size, slots, barrier

    def all_gather(self, part):
        self._slots[self.rank] = part
        self._barrier.wait(60)
        parts = [copy.deepcopy(given) for given in self._slots]
        self._barrier.wait(60)
        return parts

    def all_reduce(self, part, op="sum"):
        parts = self.all_gather(part)
        if op == "sum":
            return sum(parts)
        largest = functools.reduce(torch.maximum, map(torch.as_tensor, parts))
        if isinstance(part, torch.Tensor):
            return largest
        return largest.numpy() if isinstance(part, np.ndarray) else float(largest)

    def all_reduce_(self, part):
        return part.copy_(self.all_reduce(part))

    def broadcast(self, part, source=0):
        return self.all_gather(part)[source]

    def all_to_all(self, parts):
        return [given[self.rank] for given in self.all_gather(list(parts))]

    def all_to_all_(self, received, sent):
        for q, came in enumerate(self.all_to_all(sent)):
            if q != self.rank:
                assert came.shape == received[q].shape
                received[q].copy_(came)

    def ring_shift(self, sent, received, shift=1):
        came = self.all_gather(sent)[(self.rank - shift) % self.size]
        assert came.shape == received.shape
        return received.copy_(came)


def run_together(size, work):
    """Call ``work(peers)`` in every rank; return the answers in order."""
    slots, barrier = [None] * size, threading.Barrier(size)
    answers, errors = [None] * size, []

    def run(rank):
        try:
            answers[rank] = work(ThreadPeers(rank, size, slots, barrier))
        except Exception as error:
            errors.append(error)
            barrier.abort()

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    real = [e for e in errors if not isinstance(e, threading.BrokenBarrierError)]
    if errors:
        raise (real or errors)[0]
    return answers


@pytest.fixture
def together():
    return run_together


class PowerCuts:
    """What a disk would hold if the power failed after each change to a folder.

    Bytes that were not forced to the disk are lost, as a file system may lose them: such a file
    is empty in the state that is kept.
    """

    CHANGES = ("fsync", "link", "mkdir", "rename", "replace", "rmdir", "unlink")

    def __init__(self, folder, scratch):
        self.folder, self._scratch, self.n_cuts = folder, scratch, 0
        self._synced = {path.stat().st_ino: _stamp(path.stat()) for path in folder.rglob("*")}

    def watch(self, monkeypatch, *others):
        """Keep the state after every change that the operating system is asked for."""
        for module, name in [*((os, name) for name in self.CHANGES), *others]:
            monkeypatch.setattr(module, name, self._watched(name, getattr(module, name)))

    def _watched(self, name, change):
        def call(*args, **named):
            answer = change(*args, **named)
            if name == "fsync":
                status = os.fstat(args[0])
                self._synced[status.st_ino] = _stamp(status)
            self._keep()
            return answer

        return call

    def _keep(self):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(self, "_keep", lambda: None)  # the copy itself is no change
            target = self._scratch / f"{self.n_cuts:04}"
            shutil.copytree(self.folder, target, copy_function=self._copied)
            self.n_cuts += 1

    def _copied(self, source, target):
        status = Path(source).stat()
        is_safe = self._synced.get(status.st_ino) == _stamp(status)
        Path(target).write_bytes(Path(source).read_bytes() if is_safe else b"")

    def states(self):
        """The folders as they were after each change."""
        return sorted(self._scratch.iterdir())


def _stamp(status):
    return status.st_size, status.st_mtime_ns


@pytest.fixture
def power_cuts(tmp_path_factory):
    return lambda folder: PowerCuts(folder, tmp_path_factory.mktemp("cuts"))
