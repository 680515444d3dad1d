"""Random walks, skip-gram contexts, and classification of embeddings."""

import dataclasses

import numpy as np
import scipy.sparse as sp
import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional

from glnn.quality.rivals import NodeProblem
from glnn_lab.baselines.scikit import LogisticRegressionSettings, fit_logistic_regression


class RandomWalks:
    """Random walks on a graph; a step goes to a neighbour in proportion to the edge's weight.

    A walk that starts at an isolated node stays there.

    Examples
    --------
    >>> walks = RandomWalks(sp.csr_matrix([[0, 1, 0], [1, 0, 0], [0, 0, 0]]))
    >>> walks.draw(torch.tensor([0, 2]), 3, torch.Generator())
    tensor([[0, 1, 0, 1],
            [2, 2, 2, 2]])
    """

    def __init__(self, graph: sp.csr_matrix) -> None:
        graph = sp.csr_matrix(graph)
        neighbors = np.append(graph.indices, 0).astype(
            np.int64
        )  # the last entry is a placeholder for isolated nodes
        self._neighbors = torch.from_numpy(neighbors)
        self._offsets = torch.from_numpy(graph.indptr.astype(np.int64))
        sums = np.concatenate([[0.0], np.cumsum(graph.data, dtype=np.float64)])
        self._sums = torch.from_numpy(sums)  # weights of all entries before each
        self.n_nodes = graph.shape[0]
        self.connected = torch.nonzero(self._offsets.diff() > 0).ravel()

    def draw(
        self, start: Int[Tensor, "w"], n_steps: int, generator: torch.Generator
    ) -> Int[Tensor, "w s"]:
        """Return walks of ``n_steps`` steps, one for each start, the start included."""
        path = [start]
        for _ in range(n_steps):
            path.append(self._step(path[-1], generator))
        return torch.stack(path, 1)

    def _step(self, nodes: Int[Tensor, "w"], generator: torch.Generator) -> Int[Tensor, "w"]:
        first, stop = self._offsets[nodes], self._offsets[nodes + 1]
        low, high = self._sums[first], self._sums[stop]
        point = torch.rand(len(nodes), generator=generator, dtype=torch.float64)
        place = torch.searchsorted(self._sums, low + point * (high - low), right=True) - 1
        place = torch.minimum(torch.maximum(place, first), stop - 1)
        alone = first == stop
        place = torch.where(alone, len(self._neighbors) - 1, place)
        return torch.where(alone, nodes, self._neighbors[place])


def window_pairs(walks: Int[Tensor, "w s"], window: int) -> Int[Tensor, "p 2"]:
    """Return the pairs of nodes at most ``window`` steps apart on a walk, in both orders.

    Examples
    --------
    >>> window_pairs(torch.tensor([[0, 1, 2]]), 1).tolist()
    [[0, 1], [1, 2], [1, 0], [2, 1]]
    """
    pairs = [torch.empty(0, 2, dtype=torch.int64)]
    for gap in range(1, min(window, walks.shape[1] - 1) + 1):
        near = torch.stack([walks[:, :-gap].ravel(), walks[:, gap:].ravel()], 1)
        pairs += [near, near.flip(1)]
    return torch.cat(pairs)


def walk_contexts(
    walks: RandomWalks, sizes: tuple[int, int, int], n_negatives: int, generator: torch.Generator
) -> tuple[Int[Tensor, "p 2"], Int[Tensor, "q 2"]]:
    """Draw positives along walks, and ``n_negatives`` pairs with any node for each of them.

    ``sizes`` has the number of walks, of their steps, and the window. Walks start at nodes that
    have a neighbour; without any edge there are no pairs.
    """
    n_walks, n_steps, window = sizes
    pool = walks.connected
    if not len(pool):
        return torch.empty(0, 2, dtype=torch.int64), torch.empty(0, 2, dtype=torch.int64)
    start = pool[torch.randint(len(pool), (n_walks,), generator=generator)]
    near = window_pairs(walks.draw(start, n_steps, generator), window)
    centers = near[:, 0].repeat(n_negatives)
    others = torch.randint(walks.n_nodes, centers.shape, generator=generator)
    return near, torch.stack([centers, others], 1)


def skip_gram(
    embedding: Float[Tensor, "n d"],
    context: Float[Tensor, "n d"],
    near: Int[Tensor, "p 2"],
    far: Int[Tensor, "q 2"],
) -> Float[Tensor, ""]:
    r"""Return the mean of :math:`-\ln \sigma(\gamma\, e_i^\top w_c)` over near plus over far pairs.

    :math:`\gamma = 1` for near pairs and :math:`-1` for far ones.
    """
    losses = []
    for pairs, sign in ((near, 1.0), (far, -1.0)):
        if len(pairs):
            e = functional.embedding(pairs[:, 0], embedding)
            c = functional.embedding(pairs[:, 1], context)
            losses.append(-functional.logsigmoid(sign * (e * c).sum(1)).mean())
    return torch.stack(losses).sum() if losses else embedding.sum() * 0


class LabelContexts:
    """Pairs of labelled nodes: a positive shares the label, a negative has another one."""

    def __init__(self, nodes: Int[Tensor, "l"], classes: Int[Tensor, "l"]) -> None:
        self._nodes, self._classes = nodes, classes
        self.n_seen = len(torch.unique(classes))

    def draw(
        self, n_pairs: int, generator: torch.Generator
    ) -> tuple[Int[Tensor, "p 2"], Int[Tensor, "q 2"]]:
        """Draw pairs of labelled nodes and sort them into positives and negatives."""
        drawn = torch.randint(len(self._nodes), (n_pairs, 2), generator=generator)
        same = self._classes[drawn[:, 0]] == self._classes[drawn[:, 1]]
        pairs = self._nodes[drawn]
        return pairs[same], pairs[~same]


# Classes from an embedding


def embedding_logits(z: np.ndarray, problem: NodeProblem, penalty: float | None) -> Tensor:
    """Fit logistic regression on the labelled nodes; return log-probabilities of all nodes.

    Without a given inverse penalty it is chosen on the visible labels.
    """
    settings = dataclasses.replace(LogisticRegressionSettings(), inverse_penalty=penalty)
    return torch.from_numpy(fit_logistic_regression(z, problem, settings)).clamp_min(1e-30).log()
