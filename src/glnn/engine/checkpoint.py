"""Checkpoints: the state of a fit between its rounds, on disk.

Each process writes one file of arrays, and process 0 writes a JSON page that names them. The page
is replaced atomically after all files are written, and old files are removed after that. So the
page always names complete files, whenever a process dies.
"""

import hashlib
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from torch import Tensor

from glnn.data.files import atomic_write, make_folder
from glnn.distributed import run_everywhere
from glnn.engine.archive import (
    Packer,
    compute_digest,
    pack_arrays,
    read_checked_json,
    unpack,
    unpack_arrays,
    wrap_unpack_errors,
    write_checked_json,
)
from glnn.engine.callbacks import CallbackState, Record
from glnn.engine.fit_problem import find_shares
from glnn.engine.rounds import Progress, Rounds
from glnn.engine.steps import FitState, Steps
from glnn.exceptions import CheckpointError

FORMAT, VERSION, PAGE = "glnn-checkpoint", 7, "checkpoint.json"

# A state inside a fold is written if it takes at most this share of the time since the last one.
SHARE = 0.02

Page = dict[str, Any]


class Checkpoint:
    """A folder with the state after a finished round of one fit.

    Rounds within folds of the labels may be short, so not every one of them is written.
    All processes must use the same folder. The settings, seed, data and number of processes of
    ``steps`` must be those of the state in the folder.
    """

    def __init__(self, folder: Path, steps: Steps) -> None:
        self.folder, self._steps, self._peers = folder, steps, steps.partition.peers
        self._fit = self._gather_digests(_fingerprint(steps))
        self._next = 0.0  # time of the next state inside a fold

    def save(self, progress: Progress) -> None:
        """Write the state after a round if it is time; if that fails, the old state stays."""
        began, folds = time.monotonic(), self._steps.problem.folds
        is_early = folds is not None and progress.part < len(folds) and began < self._next
        if self._peers.broadcast(float(is_early)):
            return
        packer = Packer()
        saved = packer.pack(_Saved.of(progress, self._steps))
        packed = pack_arrays(packer.arrays)
        digest = hashlib.sha256(packed)
        mine = self._file(digest.hexdigest())
        run_everywhere(self._peers, lambda: _write(mine, packed))
        page = {"fit": self._fit, "files": self._gather_digests(digest.digest()), **saved}
        run_everywhere(self._peers, lambda: self._write_page(page))
        for old in self.folder.glob(self._file("*").name):
            if old != mine:
                old.unlink(missing_ok=True)
        now = time.monotonic()
        self._next = now + (now - began) / SHARE

    def load(self) -> Progress | None:
        """Return the saved state, or ``None`` without one; restore history and callbacks."""
        read = run_everywhere(self._peers, self._read)
        if read is None:
            return None
        arrays, page = read
        with wrap_unpack_errors(self.folder):
            saved: _Saved = unpack(_Saved, page, arrays)
            return saved.restore(self._steps)

    def _write_page(self, page: Page) -> None:
        if self._peers.rank == 0:
            write_checked_json(self.folder / PAGE, FORMAT, VERSION, page)

    def _file(self, digest: str) -> Path:
        part = f"process-{self._peers.rank}-of-{self._peers.size}"
        return self.folder / f"{part}-{digest[:16]}.safetensors"

    def _read(self) -> tuple[dict[str, np.ndarray], Page] | None:
        """Return this process's arrays and the page, or ``None`` if there is no page."""
        path = self.folder / PAGE
        if not path.is_file():
            return None
        page = read_checked_json(path, FORMAT, VERSION)
        if page.get("fit") != self._fit:
            raise CheckpointError(
                f"{self.folder} must be the checkpoint of this very fit, got one of other data, "
                "settings, seed or number of processes. Name another folder, or remove it."
            )
        try:
            digest = page["files"][self._peers.rank]
            packed = self._file(digest).read_bytes()
            if hashlib.sha256(packed).hexdigest() == digest:
                return unpack_arrays(packed), page
        except (OSError, LookupError, TypeError, ValueError, SafetensorError):
            pass  # the error is raised below
        raise CheckpointError(f"{self.folder} was damaged. Remove it to start anew.")

    def _gather_digests(self, digest: bytes) -> list[str]:
        """Gather the digests of all processes."""
        parts = self._peers.all_gather(np.frombuffer(digest, dtype=np.uint8))
        return [bytes(part).hex() for part in parts]


def _write(path: Path, packed: bytes) -> None:
    make_folder(path.parent)
    with atomic_write(path, "wb") as file:
        file.write(packed)


def _fingerprint(steps: Steps) -> bytes:
    """Return a digest of the settings, the seed and this process's part of the data."""
    problem = steps.problem
    known = [labels for labels in (problem.labels, problem.validation) if labels is not None]
    labels = [[each.nodes, each.classes, each.weights] for each in known]
    data = [problem.features, problem.graph, labels, problem.folds]
    return compute_digest([steps.settings, steps.seed, data])


# What is saved


@dataclass(frozen=True, eq=False)
class _Saved:
    """All tracks, with the history and the states of the callbacks."""

    progress: Progress  # its states without what follows from the data and the settings
    networks: list[dict[str, Tensor]]  # of these states
    history: list[Record]
    callbacks: list[CallbackState]

    @classmethod
    def of(cls, progress: Progress, steps: Steps) -> "_Saved":
        tasks = [state.task for state in progress.states if state.task is not None]
        return cls(
            replace(progress, states=tuple(map(_strip, progress.states))),
            [dict(task.module.state_dict()) for task in tasks],
            [dict(record) for record in steps.history],
            [callback.state_dict() for callback in steps.callbacks],
        )

    def restore(self, steps: Steps) -> Progress:
        """Return the progress, and restore the history and the callbacks of ``steps``."""
        trained_by = Rounds(steps).steps_of(self.progress.part)  # has the labels of this part
        states = []
        for saved, network in zip(self.progress.states, self.networks):
            state = saved.replace(given=steps.start(saved.track).given)
            task = trained_by.build_task(state)
            task.module.load_state_dict(network)
            states.append(state.replace(task=task))
        steps.history.extend(self.history)
        for callback, callback_state in zip(steps.callbacks, self.callbacks):
            callback.load_state_dict(callback_state)
        return replace(self.progress, states=tuple(states))


def _strip(state: FitState) -> FitState:
    return state.replace(given=None, task=None, attribution=find_shares(state.attribution))
