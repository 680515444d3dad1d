"""Checkpoints: the state of a fit between its rounds, on disk.

Each process writes one file of arrays, and process 0 writes a JSON page that names them. The page
is replaced atomically after all files are written, and old files are removed after that. So the
page always names complete files, whenever a process dies.
"""

import dataclasses
import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

from glnn.data.files import atomic_write
from glnn.distributed import run_everywhere
from glnn.engine.archive import (
    compute_digest,
    drop_repeats,
    fill_networks,
    pack_matrix,
    pack_networks,
    pack_new_rows,
    read_checked_json,
    restore_repeats,
    unpack_matrix,
    unpack_new_rows,
    wrap_unpack_errors,
    write_checked_json,
)
from glnn.engine.callbacks import Callback
from glnn.engine.fit_problem import pack_shares, unpack_shares
from glnn.engine.rounds import Progress, Rounds
from glnn.engine.settings import Track
from glnn.engine.steps import FitState, Solution, Steps, TrainedClassifier
from glnn.exceptions import CheckpointError, InputError
from glnn.solver.certificate import Certificate

# State of the callbacks

_Names = list[list[list[Any]]]  # for each callback: name and numbers of each graph


def pack_callback_state(callbacks: Sequence[Callback], arrays: dict[str, Any]) -> _Names:
    """Add the graphs of the callbacks' states to the arrays; return their names and numbers."""
    found: _Names = []
    for place, callback in enumerate(callbacks):
        state = callback.state_dict()
        for number, (graph, _) in enumerate(state.values()):
            pack_matrix(_key(place, number), graph, arrays)
        found.append([[name, dict(numbers)] for name, (_, numbers) in state.items()])
    return found


def restore_callback_state(
    callbacks: Sequence[Callback], packed: _Names, arrays: dict[str, np.ndarray]
) -> None:
    """Load the saved states into the callbacks; callbacks without a saved state are skipped."""
    for place, (callback, names) in enumerate(zip(callbacks, packed)):
        graphs = [unpack_matrix(_key(place, number), arrays) for number in range(len(names))]
        callback.load_state_dict({name: (g, numbers) for (name, numbers), g in zip(names, graphs)})


def _key(place: int, number: int) -> str:
    return f"memory.{place}.{number}"


# The checkpoint

FORMAT, VERSION, PAGE = "glnn-checkpoint", 5, "checkpoint.json"

Page = dict[str, Any]


class Checkpoint:
    """A folder with the state after the last finished round of one fit.

    All processes must use the same folder. The settings, seed, data and number of processes of
    ``steps`` must be those of the state in the folder.
    """

    def __init__(self, folder: Path, steps: Steps) -> None:
        self.folder, self._steps, self._peers = folder, steps, steps.partition.peers
        self._fit = self._gather_digests(_fingerprint(steps))

    def save(self, progress: Progress) -> None:
        """Write the state after a round; if that fails, the old state stays."""
        arrays, facts = _pack(progress)
        facts["memories"] = pack_callback_state(self._steps.callbacks, arrays)
        packed = save(drop_repeats(arrays))
        digest = hashlib.sha256(packed)
        mine = self._file(digest.hexdigest())
        run_everywhere(self._peers, lambda: _write(mine, packed))
        page = {
            "fit": self._fit,
            "files": self._gather_digests(digest.digest()),
            "history": [dict(record) for record in self._steps.history],
            **facts,
        }
        run_everywhere(self._peers, lambda: self._write_page(page))
        for old in self.folder.glob(self._file("*").name):
            if old != mine:
                old.unlink(missing_ok=True)

    def load(self) -> Progress | None:
        """Return the saved state, or ``None`` without one; restore history and callbacks."""
        read: list[tuple[dict[str, np.ndarray], Page]] = []
        run_everywhere(self._peers, lambda: read.extend(self._read()))
        if not read:
            return None
        arrays, page = read[0]
        with wrap_unpack_errors(self.folder):
            arrays = restore_repeats(arrays)
            state = _unpack(self._steps, arrays, page)
            restore_callback_state(self._steps.callbacks, page["memories"], arrays)
            for record in page["history"]:
                self._steps.history.append(record)
        return state

    def _write_page(self, page: Page) -> None:
        if self._peers.rank == 0:
            write_checked_json(self.folder / PAGE, FORMAT, VERSION, page)

    def _file(self, digest: str) -> Path:
        part = f"process-{self._peers.rank}-of-{self._peers.size}"
        return self.folder / f"{part}-{digest[:16]}.safetensors"

    def _read(self) -> list[tuple[dict[str, np.ndarray], Page]]:
        """Return this process's arrays and the page, or an empty list if there is no page."""
        path = self.folder / PAGE
        if not path.is_file():
            return []
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
                return [(dict(load(packed)), page)]
        except (OSError, LookupError, TypeError, SafetensorError):
            pass  # the error is raised below
        raise CheckpointError(f"{self.folder} was damaged. Remove it to start anew.")

    def _gather_digests(self, digest: bytes) -> list[str]:
        """Gather the digests of all processes."""
        parts = self._peers.all_gather(np.frombuffer(digest, dtype=np.uint8))
        return [bytes(part).hex() for part in parts]


def _write(path: Path, packed: bytes) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{path.parent} must be writable, got: {error.strerror}.") from None
    with atomic_write(path, "wb") as file:
        file.write(packed)


def _fingerprint(steps: Steps) -> bytes:
    """Return a digest of the settings, the seed and this process's part of the data."""
    problem = steps.problem
    arrays: dict[str, Any] = {}
    pack_matrix("features", problem.features, arrays)
    pack_matrix("graph", problem.graph, arrays)
    if problem.validation is not None:
        arrays["validation"] = problem.validation.nodes.numpy()
        arrays["validation.labels"] = problem.validation.labels.numpy()
    arrays["labels"] = problem.labels.nodes.numpy()
    arrays["classes"] = problem.labels.classes.numpy()
    if problem.folds is not None:
        for number, (hidden, seen) in enumerate(zip(problem.folds.hidden, problem.folds.seen)):
            arrays[f"fold.{number}.hidden"], arrays[f"fold.{number}.seen"] = hidden, seen
    for name, known in (("labels", problem.labels), ("validation", problem.validation)):
        if known is not None and known.weights is not None:
            arrays[f"{name}.weights"] = known.weights.numpy()
    settings = json.dumps([dataclasses.asdict(steps.settings), steps.seed], sort_keys=True)
    return compute_digest(settings, arrays)


def _pack(progress: Progress) -> tuple[dict[str, np.ndarray], Page]:
    """Return this process's arrays, and what is the same in every process."""
    arrays: dict[str, Any] = {"judged": progress.judged}
    pack_networks([_trained(state).task.module for state in progress.states], arrays)
    states = [_pack_state(f"track.{k}", s, arrays) for k, s in enumerate(progress.states)]
    facts = {"part": progress.part, "states": states, "kept": list(progress.kept)}
    return {name: np.asarray(array, order="C") for name, array in arrays.items()}, facts


def _trained(state: FitState) -> TrainedClassifier:
    assert state.trained is not None  # a round has ended
    return state.trained


def _pack_state(prefix: str, state: FitState, arrays: dict[str, Any]) -> Page:
    """Add a track's state to the arrays; return its plain facts."""
    arrays[f"{prefix}.probabilities"] = state.probabilities
    pack_matrix(f"{prefix}.adjacency", state.adjacency, arrays)
    certificate = shares = rows = None
    if state.learned is not None:
        learned = state.learned
        arrays[f"{prefix}.candidates.i"], arrays[f"{prefix}.candidates.j"] = learned.candidates
        certificate, parts = learned.certificate.to_dict(), dict[str, np.ndarray]()
        shares = pack_shares(learned.shares(), parts)
        arrays |= {f"{prefix}.{name}": part for name, part in parts.items()}
    if state.new_rows is not None:
        rows = pack_new_rows(state.new_rows, arrays, prefix=f"{prefix}.new_rows")
    facts = {"name": state.track.name, "round": state.round, "certificate": certificate}
    return facts | {"shares": shares, "new_rows": rows}


def _unpack(steps: Steps, arrays: dict[str, np.ndarray], page: Page) -> Progress:
    tracks = {track.name: track for track in steps.tracks}
    states = [
        _unpack_state(steps, tracks[facts["name"]], f"track.{place}", arrays, facts)
        for place, facts in enumerate(page["states"])
    ]
    trained_by = Rounds(steps).steps_of(page["part"])  # with the labels that this part may see
    tasks = [trained_by.build_task(state) for state in states]
    fill_networks([task.module for task in tasks], arrays)
    answers = [arrays[f"track.{place}.probabilities"] for place in range(len(states))]
    trained = [TrainedClassifier(*each) for each in zip(tasks, answers)]
    done = tuple(state.replace(trained=each) for state, each in zip(states, trained))
    return Progress(arrays["judged"], page["part"], done, tuple(page["kept"]))


def _unpack_state(
    steps: Steps, track: Track, prefix: str, arrays: dict[str, np.ndarray], facts: Page
) -> FitState:
    """Return a track's state, but for its network."""
    learned = rows = None
    if facts["certificate"] is not None:
        names = (name for name in arrays if name.startswith(f"{prefix}."))
        parts = {name.removeprefix(f"{prefix}."): arrays[name] for name in names}
        candidates = (parts["candidates.i"], parts["candidates.j"])
        certificate = Certificate.from_dict(facts["certificate"])
        shares = unpack_shares(parts, facts["shares"])
        learned = Solution(certificate, candidates, saved_shares=shares)
    if facts["new_rows"] is not None:
        rows = unpack_new_rows(facts["new_rows"], arrays, f"{prefix}.new_rows")
    adjacency = unpack_matrix(f"{prefix}.adjacency", arrays)
    return steps.start(track).replace(
        round=facts["round"], adjacency=adjacency, learned=learned, new_rows=rows
    )
