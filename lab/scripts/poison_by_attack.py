"""Poison a graph by an attack of DeepRobust, and measure methods on the result.

    pip install deeprobust      # not a dependency of glnn
    python lab/scripts/poison_by_attack.py cora --attack metattack --share 0.05 --seed 0
    python lab/scripts/poison_by_attack.py cora --attack nettack --links 3 --seed 0

Metattack changes a share of all links so that a network trained on them fails everywhere; Nettack
changes some links of each of 40 test nodes with more than ten neighbours, and only these are
scored. The protocol is the usual one: the largest component, 10 % of its nodes for training, 10 %
for validation, the rest for the test. The attacker knows the training and validation labels.
Prints a line of JSON for each method; ``--out`` writes the poisoned data as npz.
"""

import argparse
import contextlib
import json
import sys
import types
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from scipy.sparse.csgraph import connected_components

from glnn.data import NodeData, Split, load_dataset
from glnn.data.npz import write_node_npz
from glnn.exceptions import GlnnError, InputError
from glnn_lab.baselines.networks import isolate_rng
from glnn_lab.experiments.datasets import take_nodes
from glnn_lab.experiments.machine import use_threads
from glnn_lab.experiments.methods import get_method, visible_labels
from glnn_lab.experiments.splits import make_split

METHODS = ("glnn", "gcn", "gcn_jaccard", "gcn_svd")
N_TARGETS = 40
FEWEST_NEIGHBOURS = 11  # of a target of Nettack

# an attack returns the poisoned graph and the nodes to score
Attack = Callable[[NodeData, Split, argparse.Namespace], tuple[sp.csr_matrix, np.ndarray]]


def main() -> None:
    """Poison once, run every method, print the records."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("dataset")
    parser.add_argument("--attack", choices=list(ATTACKS), default="metattack")
    parser.add_argument("--share", type=float, default=0.05, help="of the links, for Metattack")
    parser.add_argument("--links", type=int, default=3, help="of each target, for Nettack")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cpu", help="of the attack")
    parser.add_argument("--methods", default=",".join(METHODS))
    parser.add_argument("--out", type=Path, help="npz file of the poisoned data")
    options = parser.parse_args()
    try:
        with contextlib.redirect_stdout(sys.stderr):  # messages of the attack
            records = measure(load_dataset(options.dataset), options)
    except GlnnError as error:
        sys.exit(str(error))
    except ImportError as error:
        sys.exit(
            f"the attacks are those of DeepRobust, of which {error.name} is not installed: "
            "pip install deeprobust"
        )
    for record in records:
        print(json.dumps(record), flush=True)


def measure(whole: NodeData, options: argparse.Namespace) -> list[dict[str, Any]]:
    """Return a record of each method on the poisoned graph."""
    if whole.graph is None:
        raise InputError(f"{whole.name} must have a graph to be poisoned, got none.")
    data = largest_component(whole)
    tenth = data.n_nodes // 10
    n_test = data.n_nodes - 2 * tenth
    split = make_split(data, "rate", options.seed, rate=0.1, n_val=tenth, n_test=n_test)
    graph, judged = ATTACKS[options.attack](data, split, options)
    poisoned = data.replace(graph=graph)
    if options.out is not None:
        write_node_npz(poisoned, options.out)
    changed = abs(graph - data.graph)
    records = []
    for name in options.methods.split(","):
        with use_threads(1):
            found = get_method(name).run(poisoned, split, options.seed, {})
        records.append(
            {
                "method": name,
                "dataset": whole.name,
                "attack": options.attack,
                "seed": options.seed,
                "links": data.n_edges,
                "changed": int((changed > 0).sum()) // 2,
                "judged": len(judged),
                "accuracy": float((found.classes == data.labels)[judged].mean()),
            }
        )
    return records


def largest_component(data: NodeData) -> NodeData:
    """Return the nodes of the largest component, and their links."""
    _, parts = connected_components(data.graph, directed=False)
    return take_nodes(data, np.flatnonzero(parts == np.bincount(parts).argmax()))


def run_metattack(
    data: NodeData, split: Split, options: argparse.Namespace
) -> tuple[sp.csr_matrix, np.ndarray]:
    """Change a share of the links by Metattack with self-training."""
    _stub_unused_attacks()
    from deeprobust.graph.global_attack import Metattack

    features, graph, labels = visible_arrays(data, split)
    unlabelled = np.setdiff1d(np.arange(data.n_nodes), split.train)
    with isolate_rng(options.seed):
        surrogate, guess = fit_surrogate(features, graph, labels, split, options.device)
        attacker = Metattack(
            surrogate,
            nnodes=data.n_nodes,
            feature_shape=features.shape,
            device=options.device,
            lambda_=0,
        ).to(options.device)
        n_links = round(options.share * data.n_edges)
        attacker.attack(
            features, graph, guess, split.train, unlabelled, n_links, ll_constraint=False
        )
    return sp.csr_matrix(attacker.modified_adj.cpu().numpy()), split.test


def run_nettack(
    data: NodeData, split: Split, options: argparse.Namespace
) -> tuple[sp.csr_matrix, np.ndarray]:
    """Change links of some test nodes with many neighbours by Nettack, one node after another."""
    _stub_unused_attacks()
    from deeprobust.graph.targeted_attack import Nettack

    features, graph, labels = visible_arrays(data, split)
    degree = np.asarray((data.graph > 0).sum(1)).ravel()
    able = split.test[degree[split.test] >= FEWEST_NEIGHBOURS]
    rng = np.random.default_rng(options.seed)
    targets = rng.permutation(able)[:N_TARGETS]
    with isolate_rng(options.seed):
        surrogate, guess = fit_surrogate(features, graph, labels, split, options.device)
        for node in targets:
            attacker = Nettack(surrogate, nnodes=data.n_nodes, device=options.device)
            attacker.attack(
                sp.csr_matrix(features), graph, guess, int(node), options.links, verbose=False
            )
            graph = sp.csr_matrix(attacker.modified_adj)
    return sp.csr_matrix(graph, dtype=np.float32), np.sort(targets)


def visible_arrays(data: NodeData, split: Split) -> tuple[np.ndarray, sp.csr_matrix, np.ndarray]:
    """Return dense features, links of weight one, and the visible labels."""
    features = data.features.toarray() if sp.issparse(data.features) else data.features
    links = sp.csr_matrix((data.graph > 0).astype(np.float32))
    return np.asarray(features, dtype=np.float32), links, visible_labels(data, split)


def fit_surrogate(
    features: np.ndarray, graph: sp.csr_matrix, labels: np.ndarray, split: Split, device: str
) -> tuple[Any, np.ndarray]:
    """Return a linear GCN as surrogate model, and labels completed by its predictions."""
    from deeprobust.graph.defense import GCN

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        net = GCN(
            features.shape[1],
            16,
            int(labels.max()) + 1,
            dropout=0,
            with_relu=False,
            with_bias=False,
            device=device,
        ).to(device)
        net.fit(torch.from_numpy(features), graph, labels, split.train, split.val, patience=30)
    return net, np.where(labels < 0, net.predict().argmax(1).cpu().numpy(), labels)


def _stub_unused_attacks() -> None:
    """Replace unused attacks whose packages DeepRobust does not install."""
    for place, name in (("global_attack.prbcd", "PRBCD"), ("targeted_attack.sga", "SGAttack")):
        unused = types.ModuleType(f"deeprobust.graph.{place}")
        setattr(unused, name, None)
        sys.modules.setdefault(unused.__name__, unused)


ATTACKS: dict[str, Attack] = {"metattack": run_metattack, "nettack": run_nettack}

if __name__ == "__main__":
    main()
