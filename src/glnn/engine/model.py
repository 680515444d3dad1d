"""A fitted model: the graph, the network and what new nodes need, in memory and on disk."""

import copy
import dataclasses
import hashlib
import itertools
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from jaxtyping import Float
from torch import Tensor, nn

from glnn.distributed import ALONE, Partition
from glnn.engine.archive import (
    Spread,
    fill_networks,
    pack_matrix,
    pack_networks,
    pack_new_rows,
    read_archive,
    settings_of,
    unpack_matrix,
    unpack_new_rows,
    unpacking,
    write_archive,
)
from glnn.engine.fit import FitResult
from glnn.engine.inputs import Scaling
from glnn.engine.settings import FitSettings
from glnn.engine.steps import tempered, with_columns
from glnn.engine.tasks import build_head
from glnn.exceptions import GraphWarning, InputError
from glnn.graph import as_adjacency, prior_graph
from glnn.graph.adjacency import GraphOperator
from glnn.graph.operators import Structure, walk_matrix, with_loops, without_loops
from glnn.graph.prior import inverse_root, normalized
from glnn.graph.rows import CsrPattern, dense_rows
from glnn.nn.features import Features
from glnn.nn.row_heads import RowNet
from glnn.solver import NewRowProblem
from glnn.solver.new_rows import NewLinks

# --- new_nodes: Classifying nodes that were not there in training, by their links to those that we


class ExtendedGraph(GraphOperator):
    r"""The training graph with new nodes that listen to it but are not heard.

    .. math:: \begin{pmatrix} \hat A & 0 \\ R & \mathrm{diag}(\ell) \end{pmatrix}

    New nodes do not see each other, so the answer for one does not depend on the others.
    """

    def __init__(self, adj_hat: sp.csr_matrix, links: sp.csr_matrix, loops: np.ndarray) -> None:
        whole = sp.bmat([[adj_hat, None], [links, sp.diags(loops)]], format="csr")
        whole.sort_indices()
        offsets = torch.from_numpy(whole.indptr.astype(np.int64))
        columns = torch.from_numpy(whole.indices.astype(np.int64))
        order = torch.arange(whole.nnz)
        self._pattern = CsrPattern.compressed(whole.shape, offsets, columns, order)
        self._values = torch.from_numpy(whole.data.astype(np.float64))

    @property
    def n_nodes(self) -> int:  # noqa: D102
        return self._pattern.shape[0]

    def __matmul__(self, x: Float[Tensor, "n d"]) -> Float[Tensor, "n d"]:
        return self._pattern.matmul(self._values, x)


@dataclass(frozen=True)
class NewNodes:
    """New nodes beside a graph and the features that networks were trained on.

    Parameters
    ----------
    graph
        The graph of the training nodes, symmetric CSR.
    known, features
        Scaled features of the training nodes, and of the new ones.
    links, loops
        Links of the new nodes to the training nodes, and to themselves.
    """

    graph: sp.csr_matrix
    known: Any
    features: Any
    links: sp.csr_matrix
    loops: np.ndarray

    def on_graph(self, network: nn.Module) -> np.ndarray:
        r"""Return class probabilities by a network on the normalised graph.

        Links are normalised as the training graph is,
        :math:`\hat a_{nj} = a_{nj} / \sqrt{r_n r_j}`. A node without any link has only itself.
        """
        loops = self.loops.astype(np.float64)
        degree = np.asarray(self.links.sum(1)).ravel() + loops
        loops[degree == 0] = degree[degree == 0] = 1.0
        left, right = degree**-0.5, inverse_root(np.asarray(self.graph.sum(1)).ravel())
        scaled_links = sp.csr_matrix(sp.diags(left) @ self.links @ sp.diags(right))
        whole = ExtendedGraph(normalized(self.graph), scaled_links, loops / degree)
        return self._answer(network, whole)

    def on_rows(self, network: RowNet) -> np.ndarray:
        r"""Return class probabilities by a head that sees the random walk, :math:`a_{nj} / r_n`."""
        if not network.needs_loops:
            walk, loops = walk_matrix(without_loops(self.graph)), np.zeros(self.links.shape[0])
        else:
            walk, loops = walk_matrix(with_loops(self.graph)), np.ones(self.links.shape[0])
        degree = np.asarray(self.links.sum(1)).ravel() + loops
        share = np.divide(1.0, degree, out=np.zeros_like(degree), where=degree > 0)
        links = sp.csr_matrix(sp.diags(share) @ self.links)
        return self._answer(network, ExtendedGraph(walk, links, loops * share))

    def _answer(self, network: nn.Module, graph: ExtendedGraph) -> np.ndarray:
        """Answer in double precision, so that batches of any size agree."""
        both = (self.known, self.features)
        stacked = sp.vstack(both, format="csr") if sp.issparse(self.known) else np.vstack(both)
        module = copy.deepcopy(network).cpu().double()
        with torch.no_grad():
            logits = module(graph, Features.of(stacked, dtype=torch.float64))
        new_rows: np.ndarray = logits[-self.links.shape[0] :].softmax(1).numpy()
        return new_rows


# --- row_index: Recognising rows that were seen in training, by a digest of their values

_SIZE = 16
_BLOCK = 4096
"""Dense rows that are looked at together: few enough to stay in the processor's cache."""

_NONE = np.empty((0, _SIZE), dtype=np.uint8)


def row_digests(features: Any) -> np.ndarray:
    """Return 16 bytes for each row: equal for equal rows, whether dense or sparse.

    Examples
    --------
    >>> dense = np.array([[0.0, 2.0], [1.0, 0.0]])
    >>> bool((row_digests(dense) == row_digests(sp.csr_matrix(dense))).all())
    True
    """
    if sp.issparse(features) and features.nnz < features.shape[0] * features.shape[1]:
        return _of_stored(features)
    rows = dense_rows(features)
    starts = range(0, len(rows), _BLOCK)
    return np.concatenate([_NONE, *(_of_dense(rows[start : start + _BLOCK]) for start in starts)])


def _of_dense(rows: np.ndarray) -> np.ndarray:
    """Return the digests of some dense rows; those without a zero need no search for it."""
    rows = np.ascontiguousarray(rows, dtype=np.float64)
    is_full = (rows != 0).all(1)
    found = np.empty((len(rows), _SIZE), dtype=np.uint8)
    found[is_full] = _of_full(rows[is_full])
    if not is_full.all():
        found[~is_full] = _of_stored(rows[~is_full])
    return found


def _of_full(rows: np.ndarray) -> np.ndarray:
    """Return the digests of rows without a zero, whose columns are all the same."""
    columns = hashlib.blake2b(np.arange(rows.shape[1], dtype=np.int64).tobytes(), digest_size=_SIZE)
    digests = []
    for row in rows:
        content = columns.copy()
        content.update(row)
        digests.append(content.digest())
    return _joined(digests)


def _of_stored(rows: Any) -> np.ndarray:
    """Return the digests of rows of which some entries are stored."""
    csr = sp.csr_matrix(rows, dtype=np.float64, copy=True)
    csr.sum_duplicates()
    csr.eliminate_zeros()
    columns, values = csr.indices.astype(np.int64).tobytes(), csr.data.tobytes()
    bounds = (8 * csr.indptr.astype(np.int64)).tolist()  # columns and values have 8 bytes each
    return _joined(
        [
            hashlib.blake2b(columns[start:end] + values[start:end], digest_size=_SIZE).digest()
            for start, end in itertools.pairwise(bounds)
        ]
    )


def _joined(digests: list[bytes]) -> np.ndarray:
    return np.frombuffer(b"".join(digests), dtype=np.uint8).reshape(-1, _SIZE)


def known_distributions(
    digests: np.ndarray, trained: np.ndarray, distributions: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return which rows were seen in training, and the distributions of those.

    A row that equals several training rows gets the mean of their distributions. All the training
    rows in their order get exactly their own.
    """
    if digests.shape == trained.shape and (digests == trained).all():
        return np.ones(len(digests), dtype=bool), distributions
    keys, group = np.unique(_keys(trained), return_inverse=True)
    sums = np.zeros((len(keys), distributions.shape[1]))
    np.add.at(sums, group, distributions)
    means = sums / np.bincount(group)[:, None]
    place = np.searchsorted(keys, _keys(digests)).clip(max=len(keys) - 1)
    seen = keys[place] == _keys(digests)
    return seen, means[place[seen]]


def _keys(digests: np.ndarray) -> np.ndarray:
    """View rows of bytes as single values that sort and compare."""
    return np.ascontiguousarray(digests).view(np.dtype((np.void, _SIZE))).ravel()


# --- model: A fitted model: the graph, the network and what new nodes need, in memory and on disk

_MORE = "more."


@dataclass(frozen=True, eq=False)
class Model:
    """What is needed to classify rows after a fit.

    Parameters
    ----------
    settings, scaling
        How it was fitted, and how features are scaled.
    adjacency, prior
        The learned graph and the prior graph it was kept close to.
    distributions
        Class probabilities of the training nodes.
    features
        Scaled features of the training nodes.
    digests
        One digest for each training row, to recognise it.
    networks, temperatures
        The trained networks, in the order of ``settings.members``; their answers are averaged at
        these temperatures.
    row_graph
        The graph that heads on rows see; ``None`` if there are no such heads.
    structure
        What the graph says of nodes by their links, where that is a signal; else ``None``.
    new_rows
        The one-row problem of new nodes; ``None`` where there is no rule for them.
    distrusts_graph
        Whether a graph was given but the fit went on without it: links do not count then.
    partition
        Which rows are here: after a fit over several processes everything with a row a node has
        those of this process. To predict, save such a model and load it.
    """

    settings: FitSettings
    scaling: Scaling
    adjacency: sp.csr_matrix
    prior: sp.csr_matrix | None
    distributions: np.ndarray
    features: Any
    digests: np.ndarray
    networks: tuple[nn.Module, ...]
    temperatures: tuple[float, ...]
    row_graph: sp.csr_matrix | None
    structure: Structure | None
    new_rows: NewRowProblem | None
    distrusts_graph: bool
    partition: Partition

    @classmethod
    def of(cls, features: Any, result: FitResult) -> "Model":
        """Keep what a fit left that prediction needs."""
        literal = result.settings.is_literal
        modules = [task.module for task in result.tasks]
        networks = [module["network"] if literal else module for module in modules]  # type: ignore[index]
        return cls(
            result.settings,
            result.scaling,
            result.adjacency,
            result.prior,
            result.probabilities,
            result.scaled,
            row_digests(features),
            tuple(networks),
            result.temperatures,
            result.row_graph,
            result.structure,
            result.new_rows,
            result.distrusts_graph,
            result.partition,
        )

    def whole(self, name: str) -> Any:
        """Return a part with a row a node; in process 0 all rows of it, elsewhere those here."""
        part = getattr(self, name)
        if part is None:
            return None
        collected = self.partition.collected(part)
        return part if collected is None else collected

    def structure_columns(self) -> np.ndarray | None:
        """Return what the graph says of the training nodes, where that is a signal."""
        if self.structure is None:
            return None
        last = self.features[:, -self.structure.voices.shape[1] :]
        return dense_rows(last)

    def was_fitted_to(self, features: Any, graph: Any) -> bool:
        """Say whether these are the rows and the graph of the fit, which one process has made.

        A graph that the fit has left is not kept, so that any would do.
        """
        if not np.array_equal(row_digests(features), self.digests):
            return False
        if self.prior is None:
            return True
        kind: Any = self.settings.graph.prior  # which was checked
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", GraphWarning)  # the fit has said it
            prior = prior_graph(as_adjacency(graph, features.shape[0]), kind)
        return bool((prior != self.prior).nnz == 0)

    def predict_proba(self, features: Any, links: Any = None) -> np.ndarray:
        """Return class probabilities of rows, known or new; see the estimator for the rule."""
        if self.partition.peers.size > 1:
            raise InputError(
                "a model fitted over several processes must be saved and loaded to predict, got "
                "one that has a part of the rows."
            )
        if links is not None:
            return self.predict_new(features, links)
        seen, known = known_distributions(row_digests(features), self.digests, self.distributions)
        probabilities = np.empty((len(seen), self.distributions.shape[1]))
        probabilities[seen] = known
        if not seen.all():
            probabilities[~seen] = self.predict_new(features[~seen], None)
        return probabilities

    def predict_new(self, features: Any, links: Any = None) -> np.ndarray:
        """Return class probabilities of rows, each taken for a new node."""
        if self.new_rows is None:
            raise InputError(
                f"the preset {self.settings.preset!r} has no rule for new rows, got some. "
                "Fit with preset 'default' or 'paper'."
            )
        own_links = links
        is_heard = not self.distrusts_graph or self.row_graph is not None
        if links is not None and not is_heard and self.structure is None:
            warnings.warn(
                "links are ignored: the fit found that its features alone classify better than "
                "with the given graph. Fit with doubts_graph=False to keep the graph.",
                GraphWarning,
                stacklevel=4,
            )
        if self.distrusts_graph:
            links = None
        scaled = self.scaling.apply(features)
        signal = features if self.scaling.kind in ("rows", "none") else scaled
        if self.structure is not None:
            signal = self.structure.rows(own_links, features.shape[0])
            scaled = with_columns(scaled, signal)
        new = self.new_rows.connect(signal, links)
        return self._mean_answer(scaled, new, own_links)

    def _mean_answer(self, scaled: Any, new: NewLinks, links: Any) -> np.ndarray:
        """Ask every network; heads on rows hear the links that were given, others the learned."""
        heard = new.links if links is None else sp.csr_matrix(links, dtype=np.float64)
        answers = []
        for network, temperature in zip(self.networks, self.temperatures):
            if isinstance(network, RowNet):
                nodes = NewNodes(self.row_graph, self.features, scaled, heard, new.loops)
                answer = nodes.on_rows(network)
            else:
                nodes = NewNodes(self.adjacency, self.features, scaled, new.links, new.loops)
                answer = nodes.on_graph(network)
            answers.append(tempered(answer, temperature) if temperature != 1 else answer)
        mean: np.ndarray = np.mean(answers, axis=0)
        return mean

    def save(
        self, folder: Path, page: dict[str, Any], more: Mapping[str, np.ndarray] | None = None
    ) -> None:
        """Write the model into a folder, with further facts for its page and further arrays.

        Of several processes all call it, and the first one writes.
        """
        partition = None if self.partition.peers.size == 1 else self.partition
        arrays: dict[str, np.ndarray | Spread] = {
            **{f"{_MORE}{name}": array for name, array in (more or {}).items()},
            "scaling.center": self.scaling.center,
            "scaling.scale": self.scaling.scale,
        }
        for name in ("adjacency", "prior", "row_graph", "features", "distributions", "digests"):
            pack_matrix(name, getattr(self, name), arrays, partition)
        if self.structure is not None:
            pack_matrix("voices", self.structure.voices, arrays, partition)
        pack_networks(self.networks, arrays)
        rows = self.new_rows
        facts = {
            "settings": dataclasses.asdict(self.settings),
            "scaling": self.scaling.kind,
            "distrusts_graph": self.distrusts_graph,
            "temperatures": list(self.temperatures),
            "structure": None if self.structure is None else self.structure.size,
            "new_rows": None if rows is None else pack_new_rows(rows, arrays, partition),
        }
        write_archive(folder, arrays, page | facts, self.partition.peers)

    @classmethod
    def load(cls, folder: Path) -> tuple["Model", dict[str, Any]]:
        """Read a saved model and its page, which has further arrays under ``more``."""
        arrays, page = read_archive(folder)
        page["more"] = {
            name.removeprefix(_MORE): array
            for name, array in arrays.items()
            if name.startswith(_MORE)
        }
        with unpacking(folder):
            return _unpack(arrays, page), page


def _unpack(arrays: dict[str, np.ndarray], page: dict[str, Any]) -> Model:
    settings = settings_of(page["settings"])
    scaling = Scaling(page["scaling"], arrays["scaling.center"], arrays["scaling.scale"])
    features, distributions = unpack_matrix("features", arrays), arrays["distributions"]
    networks = tuple(
        build_head(head, features.shape[1], distributions.shape[1], torch.Generator())
        for head in settings.members
    )
    fill_networks(networks, arrays)
    return Model(
        settings,
        scaling,
        unpack_matrix("adjacency", arrays),
        unpack_matrix("prior", arrays),
        distributions,
        features,
        arrays["digests"],
        networks,
        tuple(page["temperatures"]),
        unpack_matrix("row_graph", arrays),
        None if page["structure"] is None else Structure(arrays["voices"], page["structure"]),
        None if page["new_rows"] is None else unpack_new_rows(page["new_rows"], arrays),
        page["distrusts_graph"],
        Partition(features.shape[0], ALONE),
    )
