"""The data sets of the experiments by name, with the split each is measured on."""

import functools
from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np
import scipy.sparse as sp

from glnn._utils import check_choice, check_integer
from glnn.data import DATASETS, NodeData, Split, induced, load_dataset, make_split
from glnn.data.datasets import EMBEDDED
from glnn.data.synthetic import block_model
from glnn.exceptions import InputError
from glnn_lab.experiments.cells import Cell, Scalar
from glnn_lab.experiments.perturb import add_edges, delete_edges, poison_edges, rewire_edges

# --- pubmed_star: The paper's sample of Pubmed


def pubmed_star(data: NodeData, seed: int = 0, *, n_nodes: int = 3000) -> NodeData:
    """Return the paper's Pubmed*: a random sample of nodes with its own split.

    The paper samples 3,000 nodes, labels 60 of them (20 a class) and tests on 1,000. It names no
    validation nodes; 500 of the rest take that part.

    Parameters
    ----------
    data
        Pubmed.
    seed
        Number of the draw, of the sample and of the split.
    n_nodes
        Size of the sample.

    Returns
    -------
    NodeData
        Named ``pubmed_star``; ``ids`` are the node numbers in Pubmed, ``splits`` the split.
    """
    check_integer("seed", seed, low=0)
    check_integer("n_nodes", n_nodes, low=1, high=data.n_nodes)
    if n_nodes < 20 * data.n_classes + 2:
        raise InputError(f"n_nodes must leave nodes to test on, got {n_nodes}.")
    rng = np.random.default_rng([seed, 3000])
    chosen = np.sort(rng.choice(data.n_nodes, size=n_nodes, replace=False))
    origin = {**data.provenance, "sample": f"{n_nodes} nodes of {data.name}, seed {seed}"}
    sample = induced(data, chosen, name="pubmed_star", splits={}, provenance=origin)
    return sample.replace(splits=make_split(sample, "per_class", seed).as_dict())


# --- datasets: The data sets of the experiments by name, with the split each is measured on

PUBMED_STAR = "pubmed-star"
BLOCKS = MappingProxyType({f"blocks-{h}": h for h in (0.1, 0.2, 0.3, 0.4, 0.5, 0.8)})
"""Generated graphs of 1,000 nodes in 4 classes, by the share of links inside a class."""
LINKS = MappingProxyType({f"{name}-links": name for name in ("cora", "citeseer")})
"""The graph of a data set alone: each node has a feature of its own, which says nothing."""
NAMES = (*DATASETS, PUBMED_STAR, *BLOCKS, *LINKS)
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
"""The paper's names; the paper samples 3,000 nodes of Pubmed and calls them Pubmed*."""

_DAMAGE: dict[str, Callable[[NodeData, float | int, int], NodeData]] = {
    "delete": delete_edges,
    "add": add_edges,
    "rewire": rewire_edges,
    "poison": poison_edges,
}
_EMBEDDED_SPLIT = MappingProxyType({"n_per_class": 5})
_BLOCKS_SPLIT = MappingProxyType({"n_per_class": 20, "n_val": 200})


def standard_split(name: str) -> tuple[str, Mapping[str, Scalar]]:
    """Return the split a data set is measured on unless a target says otherwise.

    Examples
    --------
    >>> standard_split("terrorattack")[0], standard_split("pubmed")[0]
    ('paper', 'public')
    """
    check_choice("dataset", name, NAMES)
    if name in EMBEDDED:
        return "per_class", _EMBEDDED_SPLIT
    if name in BLOCKS:
        return "per_class", _BLOCKS_SPLIT
    return ("public" if name == "pubmed" or name in LINKS else "paper"), {}


def title_of(name: str) -> str:
    """Return the paper's name of a data set, or the name itself."""
    return TITLES.get(name, name)


def open_cell(cell: Cell) -> tuple[NodeData, Split]:
    """Return the data of a cell, its graph perturbed as the cell says, and its split."""
    data = _whole(cell)
    split = make_split(data, cell.split, cell.seed, **cell.split_options)
    if cell.perturbation == "no-graph":
        return data.replace(graph=None), split
    if cell.perturbation in _DAMAGE:
        data = _DAMAGE[cell.perturbation](data, cell.share, cell.seed)
    return data, split


def _whole(cell: Cell) -> NodeData:
    """Return the data of a cell before anything is done to the graph."""
    name = cell.dataset
    if name in BLOCKS:
        return block_model(1000, 4, homophily=BLOCKS[name], seed=cell.seed)
    if name == PUBMED_STAR:
        return pubmed_star(_loaded("pubmed"), cell.seed)
    if name in LINKS:
        data = _loaded(LINKS[name])
        own = sp.identity(data.n_nodes, dtype=np.float32, format="csr")
        return data.replace(features=own, feature_names=None)
    return _loaded(name)


@functools.lru_cache(maxsize=2)
def _loaded(name: str) -> NodeData:
    check_choice("dataset", name, NAMES)
    return load_dataset(name)
