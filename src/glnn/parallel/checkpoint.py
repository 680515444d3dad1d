"""The state of a fit between its rounds, on disk: one file a process, and a page that names them.

The page is replaced in one move when every process's new file is there, and old files go after
that. So whenever a process dies, the page names files that are whole.
"""

import dataclasses
import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from safetensors import SafetensorError
from safetensors.numpy import load, save

from glnn.data.files import atomic_write
from glnn.engine.archive import pack_matrix, unpack_matrix
from glnn.engine.model import graph_settings_of, pack_rows, unpack_rows
from glnn.engine.settings import HeadSettings
from glnn.engine.trained import Trained
from glnn.exceptions import CheckpointError, InputError
from glnn.parallel.graph_step import LearnedRows
from glnn.parallel.rounds import RowsRounds
from glnn.peers.group import agreed
from glnn.solver.certificate import Certificate

FORMAT, VERSION, PAGE = "glnn-checkpoint", 1, "checkpoint.json"
_NETWORK = "network."


class Checkpoint:
    """A folder that holds the state after the last finished round of one fit.

    Parameters
    ----------
    folder
        Where; all processes must see the same one.
    rounds
        The fit; its settings, seed, rows and number of processes must be those of the state that
        is found there.
    """

    def __init__(self, folder: Path, rounds: RowsRounds) -> None:
        self.folder, self.peers = folder, rounds.peers
        self._fit = _everyones(rounds, _fingerprint(rounds))

    def save(self, rounds: RowsRounds) -> None:
        """Write the state after a round, or leave the old one as it was."""
        arrays, facts = _pack(rounds)
        packed = save(arrays)
        mine = self._shard(rounds.n_done, self.peers.rank)
        agreed(self.peers, lambda: _write(self.folder / mine, packed))
        shards = _everyones(rounds, hashlib.sha256(packed).digest())
        page = {
            "format": FORMAT,
            "version": VERSION,
            "fit": self._fit,
            "shards": shards,
            "n_done": rounds.n_done,
            **facts,
        }
        text = json.dumps(page, indent=1)
        agreed(self.peers, lambda: self._write_page(text))
        (self.folder / self._shard(rounds.n_done - 1, self.peers.rank)).unlink(missing_ok=True)

    def restore(self, rounds: RowsRounds) -> None:
        """Bring a fit to where the folder's state was; do nothing if there is none."""
        read: list[tuple[dict[str, np.ndarray], dict[str, Any]]] = []
        agreed(self.peers, lambda: read.extend(self._read()))
        if read:
            _unpack(rounds, *read[0])

    def _write_page(self, text: str) -> None:
        if self.peers.rank == 0:
            with atomic_write(self.folder / PAGE) as file:
                file.write(text)

    def _shard(self, n_done: int, rank: int) -> str:
        return f"round-{n_done}-process-{rank}-of-{self.peers.size}.safetensors"

    def _read(self) -> list[tuple[dict[str, np.ndarray], dict[str, Any]]]:
        """Return this process's arrays and the page, in a list; none if there is no page."""
        path = self.folder / PAGE
        if not path.is_file():
            return []
        try:
            page = json.loads(path.read_text(encoding="utf-8"))
            known = page["format"] == FORMAT and page["version"] == VERSION
            same = known and page["fit"] == self._fit
            packed = (self.folder / self._shard(page["n_done"], self.peers.rank)).read_bytes()
            whole = hashlib.sha256(packed).hexdigest() == page["shards"][self.peers.rank]
            arrays = dict(load(packed)) if same and whole else {}
        except (OSError, ValueError, KeyError, TypeError, IndexError, SafetensorError) as error:
            if isinstance(error, OSError) and not same:
                known, whole, arrays = True, True, {}
            else:
                raise CheckpointError(
                    f"{path} cannot be read: {type(error).__name__}. Remove the folder."
                ) from None
        if not same:
            raise CheckpointError(
                f"{self.folder} must be the checkpoint of this very fit, got one of other data, "
                "settings, seed or number of processes. Name another folder, or remove it."
            )
        if not whole:
            raise CheckpointError(f"{self.folder} was damaged. Remove it to start anew.")
        return [(arrays, page)]


def _write(path: Path, packed: bytes) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{path.parent} must be writable, got: {error.strerror}.") from None
    with atomic_write(path, "wb") as file:
        file.write(packed)


def _everyones(rounds: RowsRounds, digest: bytes) -> list[str]:
    """Return the digests of all processes."""
    digests = np.zeros((rounds.peers.size, len(digest)), dtype=np.int64)
    digests[rounds.peers.rank] = np.frombuffer(digest, dtype=np.uint8)
    return [bytes(row.astype(np.uint8)).hex() for row in rounds.peers.all_reduce(digests)]


def _fingerprint(rounds: RowsRounds) -> bytes:
    """Return a digest of what the fit's answer depends on, as far as this process has it."""
    problem = rounds.problem
    arrays: dict[str, np.ndarray] = {}
    pack_matrix("features", problem.features, arrays)
    pack_matrix("graph", problem.graph, arrays)
    for name, nodes in (("labels", problem.labels), ("validation", problem.validation)):
        if nodes is not None:
            arrays[name] = nodes.nodes.numpy()
    arrays["classes"] = problem.labels.classes.numpy()
    settings = json.dumps([dataclasses.asdict(rounds.settings), rounds.seed], sort_keys=True)
    content = save({name: np.asarray(array, order="C") for name, array in arrays.items()})
    return hashlib.sha256(settings.encode() + content).digest()


def _pack(rounds: RowsRounds) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Return this process's arrays, and what is the same in every process."""
    trained, learned = rounds.trained, rounds.learned
    assert trained is not None  # a round has ended
    arrays: dict[str, np.ndarray] = {"probabilities": trained.probabilities}
    pack_matrix("adjacency", rounds.adjacency, arrays)
    for name, value in trained.task.module.state_dict().items():
        arrays[_NETWORK + name] = value.cpu().numpy()
    certificate = None
    if isinstance(learned, LearnedRows):
        arrays["candidates.i"], arrays["candidates.j"] = learned.candidates
        certificate = learned.certificate.to_dict()
    facts = {
        "graph": dataclasses.asdict(rounds.graph),
        "trusts_graph": rounds.given is not None,
        "head": dataclasses.asdict(rounds.head),
        "n_rounds": rounds.n_rounds,
        "validation": [trained.validation_loss, trained.validation_accuracy],
        "certificate": certificate,
        "rows": None if rounds.rows is None else pack_rows(rounds.rows, arrays),
        "history": [dict(record) for record in rounds.history],
    }
    return {name: np.asarray(a, order="C") for name, a in arrays.items()}, facts


def _unpack(rounds: RowsRounds, arrays: dict[str, np.ndarray], page: dict[str, Any]) -> None:
    rounds.graph, rounds.head = graph_settings_of(page["graph"]), HeadSettings(**page["head"])
    rounds.given = rounds.problem.graph if page["trusts_graph"] else None
    rounds.n_rounds, rounds.n_done = page["n_rounds"], page["n_done"]
    rounds.adjacency = sp.csr_matrix(unpack_matrix("adjacency", arrays))
    rounds.rows = None if page["rows"] is None else unpack_rows(page["rows"], arrays)
    if page["certificate"] is not None:
        assert rounds.rows is not None  # both come from the graph step
        rounds.learned = LearnedRows(  # type: ignore[assignment]
            rounds.adjacency,
            rounds.given,
            Certificate.from_dict(page["certificate"]),
            (arrays["candidates.i"], arrays["candidates.j"]),
            rounds.rows,
        )
    for record in page["history"]:
        rounds.history.append(record)
    task = rounds.task_of(rounds.n_done, rounds.head)
    state = {
        name.removeprefix(_NETWORK): torch.from_numpy(array.copy())
        for name, array in arrays.items()
        if name.startswith(_NETWORK)
    }
    task.module.load_state_dict(state)
    rounds.trained = Trained(task, arrays["probabilities"], *page["validation"])
