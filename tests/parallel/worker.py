"""Run by torchrun: fits over the processes, and leaves what was found and what was held."""

import json
import sys
from pathlib import Path

import numpy as np
import scipy.sparse as sp
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from glnn import GLNNClassifier
from glnn.data.synthetic import block_model
from glnn.engine.classifier import Labels
from glnn.engine.presets import resolve_settings
from glnn.engine.problem import FitProblem
from glnn.parallel.rounds import RowsRounds, TakenRows
from glnn.peers.group import joined_peers

CASES = {
    "paper": ("paper", {"n_epochs": 12, "n_rounds": 2}, True, True),
    "default": ("default", {"n_epochs": 4}, True, True),
    "no graph": ("default", {"n_epochs": 8, "n_rounds": 2}, False, False),
}


def arguments(has_graph, has_validation):
    """Return the arguments of ``fit``: clouds with a block model, some words among them."""
    data = block_model(243, 3, n_features=20, seed=3)
    rng = np.random.default_rng(0)
    likely = np.arange(20)[None] % 3 == data.labels[:, None]
    words = sp.csr_matrix((rng.random((243, 20)) < np.where(likely, 0.4, 0.1)).astype(np.float32))
    features = words if has_graph else data.features
    y = np.where(np.arange(243) < 120, data.labels, -1)
    validation = np.arange(60, 120) if has_validation else None
    return features, y, data.graph if has_graph else None, validation


def wide_problem():
    """Return a problem whose features are most of it."""
    data = block_model(640, 4, n_features=192, seed=1)
    labels = Labels(np.arange(60), data.labels[:60].copy(), 640, 4)
    return FitProblem(data.features, labels, data.graph)


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


def largest_held(peers):
    """Return the bytes of the largest array of a fit, once the rows are taken."""
    settings = resolve_settings(
        "default", changes={"n_epochs": 2, "n_candidates": 10, "n_rounds": 2, "doubts_graph": False}
    )
    taken = TakenRows.of(peers, wide_problem, settings)
    with Held() as held:
        RowsRounds(taken, settings, seed=0, device="cpu", callbacks=()).run()
    return held.largest


def main(folder):
    torch.set_num_threads(1)
    with joined_peers() as peers:
        for name, (preset, changes, *which) in CASES.items():
            model = GLNNClassifier(preset, random_state=0, **changes)
            model.fit_over(peers, lambda which=which: arguments(*which))
            if peers.rank == 0:
                model.save(folder / name)
        note = {"rank": peers.rank, "largest": largest_held(peers)}
        (folder / f"held-{peers.rank}.json").write_text(json.dumps(note))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
