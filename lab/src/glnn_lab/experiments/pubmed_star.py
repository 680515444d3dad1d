"""The paper's sample of Pubmed."""

import numpy as np

from glnn._validation import check_integer
from glnn.data import NodeData, induced, make_split
from glnn.exceptions import InputError


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
