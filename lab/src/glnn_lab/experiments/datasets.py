"""The data sets of the experiments by name, with their standard splits."""

import functools
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
import scipy.sparse as sp

from glnn._utils import check_choice, check_indices, check_integer
from glnn.data import DATASETS, NodeData, Split, load_dataset
from glnn.data.datasets import BUILT_IN
from glnn.data.node_data import SPLIT_KEYS
from glnn.data.synthetic import block_model
from glnn.exceptions import InputError
from glnn_lab.experiments.cells import Cell, Scalar
from glnn_lab.experiments.perturb import add_edges, delete_edges, poison_edges, rewire_edges
from glnn_lab.experiments.splits import make_split


def take_nodes(data: NodeData, nodes: Any, **changes: Any) -> NodeData:
    """Return the record of some of the nodes, in their order, with the edges between them.

    ``nodes`` are node numbers or a mask, ``changes`` other fields to change by name. Ids default
    to the old ids, or the old node numbers.
    """
    chosen = check_indices("nodes", nodes, data.n_nodes)
    position = np.full(data.n_nodes, -1, dtype=np.int64)
    position[chosen] = np.arange(chosen.size)
    kept = {key: position[data.splits[key]] for key in SPLIT_KEYS if key in data.splits}
    fields: dict[str, Any] = {
        "features": data.features[chosen],
        "labels": data.labels[chosen],
        "graph": None if data.graph is None else data.graph[chosen][:, chosen],
        "ids": data.node_ids[chosen],
        "splits": {key: rows[rows >= 0] for key, rows in kept.items()},
    }
    return data.replace(**{**fields, **changes})


def pubmed_star(data: NodeData, seed: int = 0, *, n_nodes: int = 3000) -> NodeData:
    """Return the paper's Pubmed*: a random sample of nodes with its own split.

    The paper samples 3,000 nodes, labels 60 of them (20 per class) and tests on 1,000. It names no
    validation nodes; here 500 of the rest are used. The ids of the result are the node numbers in
    Pubmed; the seed determines both the sample and the split.
    """
    check_integer("seed", seed, low=0)
    check_integer("n_nodes", n_nodes, low=1, high=data.n_nodes)
    if n_nodes < 20 * data.n_classes + 2:
        raise InputError(f"n_nodes must leave nodes to test on, got {n_nodes}.")
    rng = np.random.default_rng([seed, 3000])
    chosen = np.sort(rng.choice(data.n_nodes, size=n_nodes, replace=False))
    origin = {**data.provenance, "sample": f"{n_nodes} nodes of {data.name}, seed {seed}"}
    sample = take_nodes(data, chosen, name="pubmed_star", splits={}, provenance=origin)
    return sample.replace(splits=make_split(sample, "per_class", seed).as_dict())


PUBMED_STAR = "pubmed-star"
# generated graphs of 1,000 nodes in 4 classes, by the share of links within a class
BLOCKS = MappingProxyType({f"blocks-{h}": h for h in (0.1, 0.2, 0.3, 0.4, 0.5, 0.8)})
# the graph of a data set without its features: one-hot features, one per node
LINKS = MappingProxyType({f"{name}-links": name for name in ("cora", "citeseer")})
NAMES = (*DATASETS, PUBMED_STAR, *BLOCKS, *LINKS)
# the paper's names; Pubmed* is its sample of 3,000 nodes of Pubmed
TITLES = MappingProxyType(
    {
        "terroristsrel": "TerroristsRel",
        "terrorattack": "Terror Attack",
        "citeseer": "Citeseer",
        "cora": "Cora",
        PUBMED_STAR: "Pubmed*",
        "pubmed": "Pubmed",
        "breast_cancer": "breast cancer",
        "cora-links": "Cora, links alone",
        "citeseer-links": "Citeseer, links alone",
        **{name: f"homophily {homophily}" for name, homophily in BLOCKS.items()},
    }
)
_PERTURB: dict[str, Callable[[NodeData, float | int, int], NodeData]] = {
    "delete": delete_edges,
    "add": add_edges,
    "rewire": rewire_edges,
    "poison": poison_edges,
}
_EMBEDDED_SPLIT = MappingProxyType({"n_per_class": 5})
_BLOCKS_SPLIT = MappingProxyType({"n_per_class": 20, "n_val": 200})


def standard_split(name: str) -> tuple[str, Mapping[str, Scalar]]:
    """Return the standard split of a data set and its options.

    Examples
    --------
    >>> standard_split("terrorattack")[0], standard_split("pubmed")[0]
    ('paper', 'public')
    """
    check_choice("dataset", name, NAMES)
    if name in BUILT_IN:
        return "per_class", _EMBEDDED_SPLIT
    if name in BLOCKS:
        return "per_class", _BLOCKS_SPLIT
    return ("public" if name == "pubmed" or name in LINKS else "paper"), {}


def dataset_title(name: str) -> str:
    """Return the paper's name of a data set, or the name itself."""
    return TITLES.get(name, name)


def load_cell(cell: Cell) -> tuple[NodeData, Split]:
    """Return the data of a cell, with its perturbation applied, and its split."""
    data = _load_whole(cell)
    split = make_split(data, cell.split, cell.seed, **cell.split_options)
    if cell.perturbation == "no-graph":
        return data.replace(graph=None), split
    if cell.perturbation in _PERTURB:
        data = _PERTURB[cell.perturbation](data, cell.share, cell.seed)
    return data, split


def _load_whole(cell: Cell) -> NodeData:
    """Return the data of a cell before the perturbation."""
    name = cell.dataset
    if name in BLOCKS:
        return block_model(1000, 4, homophily=BLOCKS[name], seed=cell.seed)
    if name == PUBMED_STAR:
        return pubmed_star(_load_cached("pubmed"), cell.seed)
    if name in LINKS:
        data = _load_cached(LINKS[name])
        own = sp.identity(data.n_nodes, dtype=np.float32, format="csr")
        return data.replace(features=own, feature_names=None)
    return _load_cached(name)


@functools.lru_cache(maxsize=2)
def _load_cached(name: str) -> NodeData:
    check_choice("dataset", name, NAMES)
    return load_dataset(name)
