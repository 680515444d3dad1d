"""Run by torchrun: fits over the processes, and leaves what was found and what was held."""

import dataclasses
import json
import sys
from pathlib import Path

import numpy as np
import scipy.sparse as sp
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from glnn import GLNNClassifier, distributed
from glnn.data import npz, write_data
from glnn.data.synthetic import block_model
from glnn.distributed import Partition, join_processes
from glnn.engine.fit import fit_problem
from glnn.engine.fit_problem import FitProblem, hide_labels
from glnn.engine.settings import resolve_settings
from glnn.engine.tasks import Labels
from glnn.report.sources import Source

CASES = {
    "paper": ("paper", {"n_epochs": 30, "n_rounds": 2}, True),
    "no graph": ("default", {"n_epochs": 30, "n_rounds": 2}, False),
}


N_FOLDS = 2


def data():
    return block_model(243, 3, n_features=20, seed=3)


def labels_seen(known):
    return np.where(np.arange(243) < 60, known, -1)


def wide_file(folder):
    """Write data of which features are the most, as large ones are: to be read by rows."""
    npz.MIN_STORED_BYTES = 1
    write_data(block_model(720, 4, n_features=192, seed=1), folder / "wide.npz")
    return folder / "wide.npz"


def wide_problem(peers, path):
    """Read a process's part of a problem."""
    source = Source(str(path), peers=peers)
    labels = Labels(np.arange(60), source.data.labels[:60].copy(), 720, 4)
    features, graph = source.local_rows
    problem = FitProblem(features, labels, graph, None, peers)
    return dataclasses.replace(problem, folds=hide_labels(problem, N_FOLDS, 0))


class Held(TorchDispatchMode):
    """Notes the largest array that any function of glnn has in hand, in bytes."""

    def __init__(self):
        super().__init__()
        self.largest = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        self.see(result)
        return result

    def see(self, value):
        if isinstance(value, torch.Tensor):
            if value.layout == torch.sparse_csr:
                value = value.values()
            elif value.is_sparse:
                value = value._values()
            self.largest = max(self.largest, value.untyped_storage().nbytes())
        elif isinstance(value, np.ndarray):
            whole = value if value.base is None or not hasattr(value.base, "nbytes") else value.base
            self.largest = max(self.largest, value.nbytes, whole.nbytes)
        elif sp.issparse(value):
            self.see(value.data)
        elif isinstance(value, list | tuple):
            for part in value:
                self.see(part)

    def _profile(self, frame, event, result):
        if event == "return" and "glnn" in frame.f_code.co_filename:
            self.see(list(frame.f_locals.values()))
            self.see(result)

    def __enter__(self):
        sys.setprofile(self._profile)
        return super().__enter__()

    def __exit__(self, *error):
        sys.setprofile(None)
        return super().__exit__(*error)


def largest_held(peers, path):
    """Return the bytes of the largest array of a fit and of reading its data."""
    settings = resolve_settings(
        "default", changes={"n_epochs": 2, "n_candidates": 10, "n_rounds": 2}
    )
    with Held() as held:
        fit_problem(wide_problem(peers, path), settings, seed=0)
    return held.largest


def main(folder):
    torch.set_num_threads(1)
    whole = data()
    with join_processes() as peers:
        rows = Partition(243, peers).rows
        for name, (preset, changes, has_graph) in CASES.items():
            model = GLNNClassifier(preset, random_state=0, **changes)
            graph = whole.graph[rows] if has_graph else None
            seen, how = labels_seen(whole.labels), {"folds": N_FOLDS, "peers": peers}
            model.fit(whole.features[rows], seen, graph, **how)
            model.save(folder / name)
        distributed.MAX_FETCH_BYTES = 0  # what is fetched is small here
        note = {"rank": peers.rank, "largest": largest_held(peers, folder / "wide.npz")}
        (folder / f"held-{peers.rank}.json").write_text(json.dumps(note))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
