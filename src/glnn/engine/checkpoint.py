"""The state of a fit between its rounds, on disk: one file a process, and a page that names them.

The page is replaced in one move when every process's new file is there, and old files go after
that. So whenever a process dies, the page names files that are whole.
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
from glnn.distributed import agreed
from glnn.engine.archive import (
    digest_of,
    fill_networks,
    graph_settings_of,
    pack_matrix,
    pack_networks,
    pack_new_rows,
    read_sealed,
    unpack_matrix,
    unpack_new_rows,
    unpacking,
    write_sealed,
)
from glnn.engine.callbacks import Callback
from glnn.engine.fit_problem import pack_shares, unpack_shares
from glnn.engine.settings import HeadSettings
from glnn.engine.steps import FitState, Solution, Steps, Trained
from glnn.exceptions import CheckpointError, InputError
from glnn.solver.certificate import Certificate

# --- memories: What callbacks remember of a fit, in a checkpoint: a fit that goes on tells the sam

_Names = list[list[list[Any]]]
"""For each callback: name and numbers of each graph, as JSON has them."""


def pack_memories(callbacks: Sequence[Callback], arrays: dict[str, Any]) -> _Names:
    """Add the graphs that callbacks remember to the arrays; return their names and numbers."""
    found: _Names = []
    for place, callback in enumerate(callbacks):
        memory = callback.memory()
        for number, (graph, _) in enumerate(memory.values()):
            pack_matrix(_key(place, number), graph, arrays)
        found.append([[name, dict(numbers)] for name, (_, numbers) in memory.items()])
    return found


def recall_memories(
    callbacks: Sequence[Callback], packed: _Names, arrays: dict[str, np.ndarray]
) -> None:
    """Give callbacks back what they remembered; those that were not there before get nothing."""
    for place, (callback, names) in enumerate(zip(callbacks, packed)):
        graphs = [unpack_matrix(_key(place, number), arrays) for number in range(len(names))]
        callback.recall({name: (g, numbers) for (name, numbers), g in zip(names, graphs)})


def _key(place: int, number: int) -> str:
    return f"memory.{place}.{number}"


# --- checkpoint: The state of a fit between its rounds, on disk: one file a process, and a page th

FORMAT, VERSION, PAGE = "glnn-checkpoint", 4, "checkpoint.json"

Page = dict[str, Any]


class Checkpoint:
    """A folder that holds the state after the last finished round of one fit.

    Parameters
    ----------
    folder
        Where; all processes must see the same one.
    steps
        The fit; its settings, seed, rows and number of processes must be those of the state that
        is found there.
    """

    def __init__(self, folder: Path, steps: Steps) -> None:
        self.folder, self._steps, self._peers = folder, steps, steps.partition.peers
        self._fit = self._everyones(_fingerprint(steps))

    def save(self, state: FitState) -> None:
        """Write the state after a round, or leave the old one as it was."""
        arrays, facts = _pack(state)
        facts["memories"] = pack_memories(self._steps.callbacks, arrays)
        packed = save(arrays)
        digest = hashlib.sha256(packed)
        mine = self._file(digest.hexdigest())
        agreed(self._peers, lambda: _write(mine, packed))
        page = {
            "fit": self._fit,
            "files": self._everyones(digest.digest()),
            "history": [dict(record) for record in self._steps.history],
            **facts,
        }
        agreed(self._peers, lambda: self._write_page(page))
        for old in self.folder.glob(self._file("*").name):
            if old != mine:
                old.unlink(missing_ok=True)

    def restored(self) -> FitState | None:
        """Return the state that the folder holds, its history put back; ``None`` without one."""
        read: list[tuple[dict[str, np.ndarray], Page]] = []
        agreed(self._peers, lambda: read.extend(self._read()))
        if not read:
            return None
        arrays, page = read[0]
        with unpacking(self.folder):
            state = _unpack(self._steps, arrays, page)
            recall_memories(self._steps.callbacks, page["memories"], arrays)
            for record in page["history"]:
                self._steps.history.append(record)
        return state

    def _write_page(self, page: Page) -> None:
        if self._peers.rank == 0:
            write_sealed(self.folder / PAGE, FORMAT, VERSION, page)

    def _file(self, digest: str) -> Path:
        part = f"process-{self._peers.rank}-of-{self._peers.size}"
        return self.folder / f"{part}-{digest[:16]}.safetensors"

    def _read(self) -> list[tuple[dict[str, np.ndarray], Page]]:
        """Return this process's arrays and the page, in a list; none if there is no page."""
        path = self.folder / PAGE
        if not path.is_file():
            return []
        page = read_sealed(path, FORMAT, VERSION)
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
            pass  # said below
        raise CheckpointError(f"{self.folder} was damaged. Remove it to start anew.")

    def _everyones(self, digest: bytes) -> list[str]:
        """Return the digests of all processes."""
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
    """Return a digest of what the fit's answer depends on, as far as this process has it."""
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
    return digest_of(settings, arrays)


def _pack(state: FitState) -> tuple[dict[str, np.ndarray], Page]:
    """Return this process's arrays, and what is the same in every process."""
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
        learned = Solution(certificate, candidates, kept_shares=shares)
    state = FitState(
        graph_settings_of(page["graph"]),
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
    tasks = [steps.task_of(state.changed(head=head)) for head in heads]
    fill_networks([task.module for task in tasks], arrays)
    answers = [arrays["probabilities"], *(arrays[f"partner.{k}"] for k in range(len(tasks) - 1))]
    members = [Trained(*each[:2], *each[2]) for each in zip(tasks, answers, page["validation"])]
    return state.changed(trained=members[0], partners=tuple(members[1:]))
