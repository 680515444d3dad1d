"""A fitted model: prediction for training rows and new rows, saving and loading."""

import copy
import dataclasses
import warnings
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import nn

from glnn.distributed import Partition
from glnn.engine.inputs import Scaling
from glnn.engine.rounds import correct, mix
from glnn.engine.settings import FitSettings, HeadSettings
from glnn.engine.tasks import build_head
from glnn.exceptions import GraphWarning, InputError
from glnn.graph import as_adjacency, prior_graph
from glnn.graph.adjacency import GraphOperator
from glnn.graph.operators import (
    GraphRows,
    RandomWalk,
    SpectralFeatures,
    add_loops,
    drop_loops,
    random_walk_matrix,
)
from glnn.graph.pairs import SparseAdjacency
from glnn.graph.prior import inverse_sqrt, normalize_adjacency
from glnn.graph.rows import to_dense_array
from glnn.nn.features import Features
from glnn.nn.row_heads import RowNet
from glnn.solver import NewRowProblem
from glnn.solver.signals import append_columns

# Prediction for new nodes


def extend_graph(adj_hat: sp.csr_matrix, links: sp.csr_matrix, loops: np.ndarray) -> GraphRows:
    r"""Extend the training graph by new nodes, with edges from training nodes to new nodes only.

    .. math:: \begin{pmatrix} \hat A & 0 \\ R & \mathrm{diag}(\ell) \end{pmatrix}

    New nodes have no edges between them, so the prediction for one is independent of the others.
    The result is not symmetric, so its products must not be differentiated.
    """
    whole = sp.bmat([[adj_hat, None], [links, sp.diags(loops)]], format="csr")
    whole.sort_indices()
    return GraphRows.of(whole, dtype=torch.float64)


@dataclass(frozen=True)
class NewNodes:
    """New nodes, with the graph and the features that the networks were trained on."""

    graph: sp.csr_matrix  # of the training nodes, symmetric
    known: Any  # scaled features of the training nodes
    features: Any  # scaled features of the new nodes
    links: sp.csr_matrix  # new nodes x training nodes
    loops: np.ndarray  # self-loops of the new nodes

    def predict(self, network: nn.Module) -> np.ndarray:
        """Return the class probabilities of a network in double precision.

        So batches of any size agree.
        """
        both = (self.known, self.features)
        stacked = sp.vstack(both, format="csr") if sp.issparse(self.known) else np.vstack(both)
        graph = self.walk(network) if isinstance(network, RowNet) else self.normalized_graph()
        module = copy.deepcopy(network).cpu().double()
        with torch.no_grad():
            logits = module(graph, Features.of(stacked, dtype=torch.float64))
        new_rows: np.ndarray = logits[-self.links.shape[0] :].softmax(1).numpy()
        return new_rows

    def normalized_graph(self) -> GraphRows:
        r"""Return the normalised graph with the new nodes.

        Links are normalised like the training graph,
        :math:`\hat a_{nj} = a_{nj} / \sqrt{r_n r_j}`. A node without links gets a self-loop.
        """
        loops = self.loops.astype(np.float64)
        degree = np.asarray(self.links.sum(1)).ravel() + loops
        loops[degree == 0] = degree[degree == 0] = 1.0
        left, right = degree**-0.5, inverse_sqrt(np.asarray(self.graph.sum(1)).ravel())
        scaled_links = sp.csr_matrix(sp.diags(left) @ self.links @ sp.diags(right))
        return extend_graph(normalize_adjacency(self.graph), scaled_links, loops / degree)

    def walk(self, network: RowNet) -> GraphRows:
        r"""Return the walk :math:`a_{nj} / r_n` that a row head sees, with the new nodes."""
        seen = add_loops if network.needs_loops else drop_loops
        walk = random_walk_matrix(seen(self.graph))
        loops = np.full(self.links.shape[0], float(network.needs_loops))
        degree = np.asarray(self.links.sum(1)).ravel() + loops
        share = np.divide(1.0, degree, out=np.zeros_like(degree), where=degree > 0)
        links = sp.csr_matrix(sp.diags(share) @ self.links)
        return extend_graph(walk, links, loops * share)


# Recognition of training rows by a digest of their values

_BLOCK_ROWS = 4096  # dense rows per block: they stay in the processor's cache


def digest_rows(features: Any) -> np.ndarray:
    """Return a digest of each row, two integers of 64 bits, the same for dense and sparse rows.

    It is the product of the values' mixed bits and a random matrix, modulo 2**64: different rows
    have equal digests with a probability of about 2**-88.

    Examples
    --------
    >>> dense = np.array([[0.0, 2.0], [1.0, 0.0]])
    >>> bool((digest_rows(dense) == digest_rows(sp.csr_matrix(dense))).all())
    True
    """
    shape = (features.shape[1], 2)
    vectors = np.random.default_rng(0).integers(2**64, size=shape, dtype=np.uint64)
    if sp.issparse(features):
        csr = sp.csr_matrix(features, copy=not features.has_canonical_format)
        csr.sum_duplicates()
        parts = (_mix_bits(csr.data), csr.indices, csr.indptr)
        return np.asarray(sp.csr_matrix(parts, shape=csr.shape) @ vectors).view(np.int64)
    starts = range(0, max(1, len(features)), _BLOCK_ROWS)
    blocks = [_mix_bits(features[k : k + _BLOCK_ROWS]) @ vectors for k in starts]
    return np.concatenate(blocks).view(np.int64)


def _mix_bits(values: np.ndarray) -> np.ndarray:
    """Return the bits of numbers in double precision, spread over 64 bits; zero stays zero."""
    bits = (np.ascontiguousarray(values, dtype=np.float64) + 0.0).view(np.uint64)  # no -0.0
    bits = bits * np.uint64(0xBF58476D1CE4E5B9)
    return np.asarray(bits ^ (bits >> np.uint64(32)))


def lookup_training_rows(
    digests: np.ndarray, trained: np.ndarray, distributions: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the mask of the rows seen in training, and the class distributions of those.

    A row that equals several training rows gets the mean of their distributions. The whole
    training set in its original order gets exactly its own distributions.
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
    """View pairs of integers as single values that sort and compare."""
    return np.ascontiguousarray(digests).view([("a", np.int64), ("b", np.int64)]).ravel()


# The model


@dataclass(frozen=True, eq=False)
class FittedTrack:
    """A trained track: its network, the graph that the network sees, its weight."""

    name: str
    weight: float
    head: HeadSettings
    network: Any  # a module; its parameters by name while it is loaded
    graph: sp.csr_matrix  # this process's rows of it
    new_rows: NewRowProblem | None  # finds the links of new nodes; None: there is no rule
    sees_graph: bool  # whether the given graph takes part
    is_spectral: bool = False  # whether it sees leading eigenvectors alone


@dataclass(frozen=True, eq=False)
class Model:
    """A fitted model: everything that prediction needs.

    After a fit over several processes, everything with one row per node holds the rows of this
    process. To predict, save such a model and load it in one process.
    """

    settings: FitSettings
    scaling: Scaling
    tracks: tuple[FittedTrack, ...]  # whose predictions are mixed, the heaviest first
    correction: np.ndarray | None  # of the classes that the mixture predicts
    adjacency: sp.csr_matrix  # the learned graph of the heaviest track that learns one
    prior: sp.csr_matrix | None  # the prior graph made of the given one
    distributions: np.ndarray  # class probabilities of the training nodes
    features: Any  # scaled, with those of the structure beside them if it is a signal
    digests: np.ndarray  # one for each training row, to recognise it
    structure: SpectralFeatures | None  # what the graph says of nodes by their links, if a signal
    partition: Partition  # which rows are here

    @property
    def graph_trust(self) -> float:
        """The weight of the tracks that see the given graph."""
        return float(sum(track.weight for track in self.tracks if track.sees_graph))

    def gather(self, name: str) -> Any:
        """Return an attribute with one row per node: all rows in process 0, elsewhere its own."""
        return self.partition.gather(getattr(self, name))

    def structure_columns(self) -> np.ndarray | None:
        """Return the structural features of the training nodes, or ``None`` without them."""
        if self.structure is None:
            return None
        last = to_dense_array(self.features[:, -self.structure.embedding.shape[1] :])
        return np.asarray(self.structure.split(last)[0])

    def propagate(self, signals: np.ndarray) -> np.ndarray:
        """Propagate signals over the graph as the tracks do, mixed by their weights.

        For a head that keeps the hops apart, the mean over the hops counts.
        """
        columns = torch.from_numpy(np.ascontiguousarray(signals, dtype=np.float64))
        parts = []
        for track, graph in zip(self.tracks, self._operators):
            with torch.no_grad():
                found = track.network.propagate(graph, columns)
            parts.append((found.mean(1) if isinstance(track.network, RowNet) else found).numpy())
        return mix(parts, [track.weight for track in self.tracks])

    @cached_property
    def _operators(self) -> list[GraphOperator]:
        """The graph of each track as its network sees it, in double precision."""
        found: list[GraphOperator] = []
        for track in self.tracks:
            if isinstance(track.network, RowNet):
                seen = add_loops if track.network.needs_loops else drop_loops
                found.append(RandomWalk(seen(track.graph), dtype=torch.float64))
            else:
                found.append(SparseAdjacency.from_scipy(normalize_adjacency(track.graph)))
        return found

    def was_fitted_to(self, features: Any, graph: Any) -> bool:
        """Return whether these are the rows and the graph of a fit in one process."""
        if not np.array_equal(digest_rows(features), self.digests):
            return False
        if self.prior is None:
            return True
        kind: Any = self.settings.graph.prior  # checked by the settings
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", GraphWarning)  # the fit has already warned
            prior = prior_graph(as_adjacency(graph, features.shape[0]), kind)
        return bool((prior != self.prior).nnz == 0)

    def predict_proba(self, features: Any, links: Any = None) -> np.ndarray:
        """Return class probabilities: stored ones for training rows, new ones for other rows."""
        if self.partition.peers.size > 1:
            raise InputError(
                "a model fitted over several processes must be saved and loaded to predict, got "
                "one that has a part of the rows."
            )
        if links is not None:
            return self.predict_new(features, links)
        seen, known = lookup_training_rows(digest_rows(features), self.digests, self.distributions)
        probabilities = np.empty((len(seen), self.distributions.shape[1]))
        probabilities[seen] = known
        if not seen.all():
            probabilities[~seen] = self.predict_new(features[~seen], None)
        return probabilities

    def predict_new(self, features: Any, links: Any = None) -> np.ndarray:
        """Return class probabilities of rows, each treated as a new node."""
        if self.tracks[0].new_rows is None:
            raise InputError(
                f"the preset {self.settings.preset!r} has no rule for new rows, got some. "
                "Fit with preset 'default' or 'paper'."
            )
        if links is not None and self.prior is None:
            raise InputError(
                "links must be None for a fit without a given graph. "
                "Fit with graph=... to use links of new rows."
            )
        if links is not None and self.graph_trust == 0 and self.structure is None:
            warnings.warn(
                "links are ignored: the fit found that its features alone classify better than "
                "with the given graph. Fit with tracks=['learned'] to keep the graph.",
                GraphWarning,
                stacklevel=4,
            )
        with np.errstate(over="ignore"):
            scaled = self.scaling.apply(features)
        stored = scaled.data if sp.issparse(scaled) else scaled
        if not np.isfinite(stored).all():
            largest = abs(features).max()
            raise InputError(
                "X must be on the scale of the training rows, got new rows with values up to "
                f"{largest:.3g}. Check their units."
            )
        signal = features if self.scaling.kind in ("rows", "none") else scaled
        if self.structure is not None:
            columns = self.structure.transform(links, features.shape[0])
            signal, _ = self.structure.split(columns)
            scaled = append_columns(scaled, columns).astype(np.float32)
        found = [self._predict_by(track, signal, scaled, links) for track in self.tracks]
        mixed = mix(found, [track.weight for track in self.tracks])
        return correct(mixed, self.correction)

    def _predict_by(self, track: FittedTrack, signal: Any, scaled: Any, links: Any) -> np.ndarray:
        """Return class probabilities by one track.

        Heads on rows see the links that were given, if any, others those that are learned.
        """
        assert track.new_rows is not None  # the caller has looked
        known = links if track.sees_graph else None
        new = track.new_rows.connect(signal, known)
        seen = new.links
        if isinstance(track.network, RowNet) and known is not None:
            seen = sp.csr_matrix(known, dtype=np.float64)
        known_columns, columns = (self._columns_of(track, x) for x in (self.features, scaled))
        return NewNodes(track.graph, known_columns, columns, seen, new.loops).predict(track.network)

    def _columns_of(self, track: FittedTrack, features: Any) -> Any:
        """Return the columns of features that a track sees."""
        if self.structure is None:
            return features
        others, leading = self.structure.split(features)
        return leading[:, : self.distributions.shape[1]] if track.is_spectral else others

    def with_networks(self) -> "Model":
        """Return the model with networks in place of the parameters that a file holds."""
        n_classes, tracks = self.distributions.shape[1], []
        for track in self.tracks:
            n_columns = self._columns_of(track, self.features).shape[1]
            network = build_head(track.head, n_columns, n_classes, torch.Generator())
            network.load_state_dict(track.network)
            tracks.append(dataclasses.replace(track, network=network))
        return dataclasses.replace(self, tracks=tuple(tracks))
