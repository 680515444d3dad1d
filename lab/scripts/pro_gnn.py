"""Run Pro-GNN of DeepRobust on a data set and split of the tables.

    pip install deeprobust      # not a dependency of glnn
    python lab/scripts/pro_gnn.py cora --seed 0 --epochs 400

Prints one line of JSON: accuracy on the test nodes, seconds, peak memory. Only the
labels of training and validation nodes are used. Settings are its authors' for clean graphs.
"""

import argparse
import contextlib
import json
import sys
import time
import warnings

import numpy as np
import torch

from glnn.data import NodeData, Split
from glnn.quality.rivals import normalize_row_sums
from glnn_lab.baselines.networks import isolate_rng
from glnn_lab.experiments.cells import Cell
from glnn_lab.experiments.datasets import load_cell, standard_split
from glnn_lab.experiments.machine import PeakMemory, use_threads
from glnn_lab.experiments.methods import visible_labels

SETTINGS = {
    "lr": 0.01,
    "weight_decay": 5e-4,
    "lr_adj": 0.01,
    "alpha": 5e-4,
    "beta": 1.5,
    "gamma": 1.0,
    "lambda_": 0.0,
    "phi": 0.0,
    "outer_steps": 1,
    "inner_steps": 2,
    "symmetric": False,
    "only_gcn": False,
    "debug": False,
}


def main() -> None:
    """Run once and print the record."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("dataset")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--epochs", type=int, default=400)
    options = parser.parse_args()
    split_name, split_options = standard_split(options.dataset)
    cell = Cell("gcn", options.dataset, options.seed, split_name, split_options)
    data, split = load_cell(cell)
    if split.val.size == 0:
        sys.exit(f"Pro-GNN chooses its graph on validation nodes; {options.dataset} has none.")
    memory, started = PeakMemory(), time.perf_counter()
    with use_threads(1), contextlib.redirect_stdout(sys.stderr):
        classes = predict_classes(data, split, options.seed, options.epochs)
    record = {
        "method": "pro-gnn",
        "dataset": options.dataset,
        "seed": options.seed,
        "epochs": options.epochs,
        "accuracy": float((classes == data.labels)[split.test].mean()),
        "validation_accuracy": float((classes == data.labels)[split.val].mean()),
        "seconds": round(time.perf_counter() - started, 1),
        "peak_memory_mb": round(memory.megabytes()),
    }
    print(json.dumps(record))


def predict_classes(data: NodeData, split: Split, seed: int, n_epochs: int) -> np.ndarray:
    """Learn graph and GCN; return the class of every node."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from deeprobust.graph.defense import GCN, ProGNN

        args = argparse.Namespace(epochs=n_epochs, dataset=data.name, **SETTINGS)
        scaled = normalize_row_sums(data.features)
        features = torch.tensor(scaled.toarray() if hasattr(scaled, "toarray") else scaled).float()
        graph = torch.tensor(data.graph.toarray()).float()
        labels = torch.from_numpy(visible_labels(data, split))
        with isolate_rng(seed):
            net = GCN(features.shape[1], 16, data.n_classes, dropout=0.5, device="cpu")
            model = ProGNN(net, args, "cpu")
            model.fit(features, graph, labels, split.train, split.val)
        net.eval()
        with torch.no_grad():
            return net(features, model.best_graph).argmax(1).numpy()


if __name__ == "__main__":
    main()
