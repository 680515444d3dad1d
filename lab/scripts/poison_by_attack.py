"""Poison a graph by Metattack, and measure methods on it at every share of changed links.

    python lab/scripts/poison_by_attack.py cora --seed 0 --device cuda
    python lab/scripts/poison_by_attack.py blogs --seed 0 --shares 0,0.1,0.2

The attack (Zügner and Günnemann, ICLR 2019, with self-training) changes one link after the other:
the one along which the gradient of the loss of a linear GCN is largest, through its whole training.
The protocol is the usual one: the largest component, 10 % of its nodes for training, 10 % for
validation, the rest for the test. ``blogs`` is a generated graph of the size of the political
blogs: two blocks, degrees with a heavy tail, no features. A change takes 15 ms on a GPU and some
seconds on a processor. Prints a line of JSON for each share and method; ``--out`` is a folder for
the poisoned data.
"""

import argparse
import json
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from scipy.sparse.csgraph import connected_components
from torch.nn import functional

from glnn.data import NodeData, Split, load_dataset
from glnn.data.npz import write_node_npz
from glnn.exceptions import GlnnError, InputError
from glnn_lab.experiments.datasets import take_nodes
from glnn_lab.experiments.machine import use_threads
from glnn_lab.experiments.methods import get_method
from glnn_lab.experiments.splits import make_split

N_HIDDEN, N_STEPS, RATE, MOMENTUM = 16, 100, 0.1, 0.9  # of the attacked network's training


def main() -> None:
    """Poison once, run every method at every share, print the records."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("dataset")
    parser.add_argument("--shares", default="0,0.05,0.1,0.15,0.2,0.25", help="of the links")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cpu", help="of the attack")
    parser.add_argument("--methods", default="glnn,gcn,gcn_jaccard,gcn_svd")
    parser.add_argument("--out", type=Path, help="folder for the poisoned data")
    options = parser.parse_args()
    try:
        data = blogs(options.seed) if options.dataset == "blogs" else load_dataset(options.dataset)
        for record in measure(data, options):
            print(json.dumps(record), flush=True)
    except GlnnError as error:
        sys.exit(str(error))


def measure(whole: NodeData, options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Yield a record of each method on the graph at each share of changed links."""
    if whole.graph is None:
        raise InputError(f"{whole.name} must have a graph to be poisoned, got none.")
    data = largest_component(whole)
    tenth = data.n_nodes // 10
    n_test = data.n_nodes - 2 * tenth
    split = make_split(data, "rate", options.seed, rate=0.1, n_val=tenth, n_test=n_test)
    shares = sorted(float(share) for share in options.shares.split(","))
    for share, graph in poison(data, split, shares, options.seed, options.device):
        poisoned = data.replace(graph=graph)
        if options.out is not None:
            write_node_npz(poisoned, options.out / f"{whole.name}-{options.seed}-{share:g}.npz")
        for name in options.methods.split(","):
            with use_threads(1), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found = get_method(name).run(poisoned, split, options.seed, {})
            yield {
                "dataset": whole.name,
                "seed": options.seed,
                "share": share,
                "changed": int(abs(graph - data.graph).sum()) // 2,
                "method": name,
                "accuracy": float((found.classes == data.labels)[split.test].mean()),
                "choices": found.choices,
            }


def largest_component(data: NodeData) -> NodeData:
    """Return the nodes of the largest component, and their links with weight one."""
    _, parts = connected_components(data.graph, directed=False)
    part = take_nodes(data, np.flatnonzero(parts == np.bincount(parts).argmax()))
    assert part.graph is not None  # the caller has looked
    return part.replace(graph=sp.csr_matrix((part.graph > 0).astype(np.float64)))


def blogs(seed: int, n_nodes: int = 1222, n_links: int = 16714) -> NodeData:
    """Return two blocks of nodes of very different degrees, a tenth of the links between them."""
    rng = np.random.default_rng(seed)
    labels = (np.arange(n_nodes) >= 586 * n_nodes // 1222).astype(int)
    pull = rng.pareto(1.2, n_nodes) + 0.15
    pull = np.minimum(pull, np.quantile(pull, 0.99))
    between = np.where(labels[:, None] == labels, 1.0, 0.1)
    chances = np.triu(np.outer(pull, pull) * between, 1)
    low, high = 0.0, 1e3
    for _ in range(100):  # the factor that gives the wanted number of links
        middle = (low + high) / 2
        is_less = np.minimum(1, chances * middle).sum() < n_links
        low, high = (middle, high) if is_less else (low, middle)
    upper = np.triu(rng.random((n_nodes, n_nodes)) < np.minimum(1, chances * high), 1)
    return NodeData(
        features=sp.identity(n_nodes, format="csr", dtype=np.float32),
        labels=labels,
        graph=sp.csr_matrix((upper | upper.T).astype(np.float64)),
        name="blogs",
        class_names=("left", "right"),
    )


# The attack


def poison(
    data: NodeData, split: Split, shares: list[float], seed: int, device: str
) -> Iterator[tuple[float, sp.csr_matrix]]:
    """Yield each share of changed links with the graph that the attack has reached by then."""
    attack = Metattack(data, split.train, seed, device)
    n_done = 0
    for share in shares:
        n_wanted = round(share * data.n_edges)
        for _ in range(n_done, n_wanted):
            attack.change_a_link()
        n_done = n_wanted
        yield share, sp.csr_matrix(attack.adjacency.double().cpu().numpy())


class Metattack:
    """The state of an attack: the dense graph so far. On a GPU a step is captured and replayed."""

    def __init__(self, data: NodeData, train: np.ndarray, seed: int, device: str) -> None:
        dense = data.features.toarray() if sp.issparse(data.features) else data.features
        self._x = torch.tensor(np.asarray(dense), dtype=torch.float32, device=device)
        self.adjacency = torch.tensor(data.graph.toarray(), dtype=torch.float32, device=device)  # type: ignore[union-attr]
        rest = np.setdiff1d(np.arange(data.n_nodes), train)
        self._known, self._rest = (torch.tensor(rows, device=device) for rows in (train, rest))
        classes = torch.tensor(data.labels[train], device=device)
        self._one_hot = functional.one_hot(classes, data.n_classes).float()
        self._draws = torch.Generator().manual_seed(seed)
        self._first = torch.empty(self._x.shape[1], N_HIDDEN, device=device)
        self._second = torch.empty(N_HIDDEN, data.n_classes, device=device)
        self._redraw()
        # the attacker takes the predictions of a network on the clean graph for the truth
        rows = self._propagate(self.adjacency)
        first, second = self._train(rows[self._known], 2 * N_STEPS)
        self._guess = (rows @ first @ second).argmax(1)[self._rest]
        self._redraw()
        self._scores = torch.empty_like(self.adjacency)
        self._graph = self._capture() if device.startswith("cuda") else None

    def change_a_link(self) -> None:
        """Add or delete the link that harms the predictions most, to first order.

        A later change may take an earlier one back.
        """
        self._redraw()
        if self._graph is None:
            self._score()
        else:
            self._graph.replay()
        i, j = divmod(int(self._scores.argmax()), len(self._scores))
        self.adjacency[i, j] = self.adjacency[j, i] = 1 - self.adjacency[i, j]

    def _redraw(self) -> None:
        for weight in (self._first, self._second):
            drawn = torch.rand(*weight.shape, generator=self._draws) * 2 - 1
            weight.copy_(drawn / weight.shape[1] ** 0.5)

    def _propagate(self, adjacency: torch.Tensor) -> torch.Tensor:
        """Return two steps of the features over the normalised graph with loops."""
        looped = adjacency + torch.eye(len(adjacency), device=adjacency.device)
        root = looped.sum(1).rsqrt()
        adj_hat = root[:, None] * looped * root
        return adj_hat @ (adj_hat @ self._x)

    def _train(
        self, rows: torch.Tensor, n_steps: int = N_STEPS
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Train both layers by gradient descent with momentum, differentiably in ``rows``."""
        first, second = self._first.clone(), self._second.clone()
        speed, other_speed = torch.zeros_like(first), torch.zeros_like(second)
        for _ in range(n_steps):
            hidden = rows @ first
            errors = (torch.softmax(hidden @ second, 1) - self._one_hot) / len(rows)
            speed = MOMENTUM * speed + rows.T @ (errors @ second.T)
            other_speed = MOMENTUM * other_speed + hidden.T @ errors
            first, second = first - RATE * speed, second - RATE * other_speed
        return first, second

    def _score(self) -> None:
        """Score every pair by the gradient along its change; no node may lose its last link."""
        adjacency = self.adjacency.detach().requires_grad_(True)
        rows = self._propagate(adjacency)
        first, second = self._train(rows[self._known])
        loss = functional.cross_entropy(rows[self._rest] @ first @ second, self._guess)
        (gradient,) = torch.autograd.grad(loss, adjacency)
        scores = (gradient + gradient.T) * (1 - 2 * adjacency.detach())
        is_last = (adjacency.detach().sum(1) == 1)[:, None] & (adjacency.detach() > 0)
        is_loop = torch.eye(len(scores), dtype=torch.bool, device=scores.device)
        self._scores.copy_(scores.masked_fill(is_last | is_last.T | is_loop, -torch.inf))

    def _capture(self) -> "torch.cuda.CUDAGraph":
        stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(2):  # loads the kernels
                self._score()
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self._score()
        return graph


if __name__ == "__main__":
    main()
