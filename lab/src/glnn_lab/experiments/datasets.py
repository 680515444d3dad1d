"""The data sets of the experiments by name, with the split each is measured on."""

import functools
from collections.abc import Callable, Mapping
from types import MappingProxyType

from glnn._validation import check_choice
from glnn.data import DATASETS, NodeData, Split, load_dataset, make_split
from glnn.data.embedded import EMBEDDED
from glnn.data.perturb import add_edges, delete_edges, poison_edges, rewire_edges
from glnn_lab.experiments.cells import Cell, Scalar
from glnn_lab.experiments.pubmed_star import pubmed_star

PUBMED_STAR = "pubmed-star"
NAMES = (*DATASETS, PUBMED_STAR)
TITLES = MappingProxyType(
    {
        "terroristsrel": "TerroristsRel",
        "terrorattack": "Terror Attack",
        "citeseer": "Citeseer",
        "cora": "Cora",
        PUBMED_STAR: "Pubmed*",
        "pubmed": "Pubmed",
        "breast_cancer": "breast cancer",
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
    return ("public" if name == "pubmed" else "paper"), {}


def title_of(name: str) -> str:
    """Return the paper's name of a data set, or the name itself."""
    return TITLES.get(name, name)


def open_cell(cell: Cell) -> tuple[NodeData, Split]:
    """Return the data of a cell, its graph perturbed as the cell says, and its split."""
    data = _loaded("pubmed" if cell.dataset == PUBMED_STAR else cell.dataset)
    if cell.dataset == PUBMED_STAR:
        data = pubmed_star(data, cell.seed)
    split = make_split(data, cell.split, cell.seed, **cell.split_options)
    if cell.perturbation == "no-graph":
        return data.replace(graph=None), split
    if cell.perturbation in _DAMAGE:
        data = _DAMAGE[cell.perturbation](data, cell.share, cell.seed)
    return data, split


@functools.lru_cache(maxsize=2)
def _loaded(name: str) -> NodeData:
    check_choice("dataset", name, NAMES)
    return load_dataset(name)
