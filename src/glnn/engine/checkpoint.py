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
    fill_networks,
    pack_matrix,
    pack_networks,
    pack_new_rows,
    parse_graph_settings,
    read_checked_json,
    unpack_matrix,
    unpack_new_rows,
    wrap_unpack_errors,
    write_checked_json,
)
from glnn.engine.callbacks import Callback
from glnn.engine.fit_problem import pack_shares, unpack_shares
from glnn.engine.settings import HeadSettings
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

FORMAT, VERSION, PAGE = "glnn-checkpoint", 4, "checkpoint.json"

Page = dict[str, Any]


class Checkpoint:
    """A folder with the state after the last finished round of one fit.

    All processes must use the same folder. The settings, seed, data and number of processes of
    ``steps`` must be those of the state in the folder.
    """

    def __init__(self, folder: Path, steps: Steps) -> None:
        self.folder, self._steps, self._peers = folder, steps, steps.partition.peers
        self._fit = self._gather_digests(_fingerprint(steps))

    def save(self, state: FitState) -> None:
        """Write the state after a round; if that fails, the old state stays."""
        arrays, facts = _pack(state)
        facts["memories"] = pack_callback_state(self._steps.callbacks, arrays)
        packed = save(arrays)
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

    def load(self) -> FitState | None:
        """Return the saved state, or ``None`` without one; restore history and callbacks."""
        read: list[tuple[dict[str, np.ndarray], Page]] = []
        run_everywhere(self._peers, lambda: read.extend(self._read()))
        if not read:
            return None
        arrays, page = read[0]
        with wrap_unpack_errors(self.folder):
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
    for name, known in (("labels", problem.labels), ("validation", problem.validation)):
        if known is not None and known.weights is not None:
            arrays[f"{name}.weights"] = known.weights.numpy()
    settings = json.dumps([dataclasses.asdict(steps.settings), steps.seed], sort_keys=True)
    return compute_digest(settings, arrays)


def _pack(state: FitState) -> tuple[dict[str, np.ndarray], Page]:
    """Return this process's arrays, and the metadata that is the same in every process."""
    trained, learned = state.trained, state.learned
    assert trained is not None  # a round has ended
    arrays: dict[str, Any] = {"probabilities": trained.probabilities}
    pack_matrix("adjacency", state.adjacency, arrays)
    members = (trained, *state.partners)
    pack_networks([member.task.module for member in members], arrays)
    pack_matrix("row_graph", state.row_graph, arrays)
    for place, partner in enumerate(state.partners):
        arrays[f"partner.{place}"] = partner.probabilities
    certificate = shares = None
    if learned is not None:
        arrays["candidates.i"], arrays["candidates.j"] = learned.candidates
        certificate, shares = learned.certificate.to_dict(), pack_shares(learned.shares(), arrays)
    facts = {
        "graph": dataclasses.asdict(state.graph),
        "head": dataclasses.asdict(state.head),
        "partners": [dataclasses.asdict(p.task.settings) for p in state.partners],
        "trusts_graph": state.given is not None,
        "round": state.round,
        "n_rounds": state.n_rounds,
        "doubt": state.doubt,
        "temperature": state.temperature,
        "validation": [[m.validation_loss, m.validation_accuracy, m.temperature] for m in members],
        "certificate": certificate,
        "shares": shares,
        "new_rows": None if state.new_rows is None else pack_new_rows(state.new_rows, arrays),
    }
    return {name: np.asarray(array, order="C") for name, array in arrays.items()}, facts


def _unpack(steps: Steps, arrays: dict[str, np.ndarray], page: Page) -> FitState:
    learned = None
    if page["certificate"] is not None:
        candidates = (arrays["candidates.i"], arrays["candidates.j"])
        certificate = Certificate.from_dict(page["certificate"])
        shares = unpack_shares(arrays, page["shares"])
        learned = Solution(certificate, candidates, saved_shares=shares)
    state = FitState(
        parse_graph_settings(page["graph"]),
        HeadSettings(**page["head"]),
        steps.given if page["trusts_graph"] else None,
        page["n_rounds"],
        page["round"],
        unpack_matrix("adjacency", arrays),
        learned,
        None if page["new_rows"] is None else unpack_new_rows(page["new_rows"], arrays),
        row_graph=unpack_matrix("row_graph", arrays),
        doubt=page["doubt"],
        temperature=page["temperature"],
    )
    heads = (state.head, *(HeadSettings(**head) for head in page["partners"]))
    tasks = [steps.build_task(state.replace(head=head)) for head in heads]
    fill_networks([task.module for task in tasks], arrays)
    answers = [arrays["probabilities"], *(arrays[f"partner.{k}"] for k in range(len(tasks) - 1))]
    members = [
        TrainedClassifier(*each[:2], *each[2]) for each in zip(tasks, answers, page["validation"])
    ]
    return state.replace(trained=members[0], partners=tuple(members[1:]))
