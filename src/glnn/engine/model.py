"""A fitted model: the graph, the network and what new nodes need, in memory and on disk."""

import dataclasses
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import nn

from glnn.engine.archive import pack_matrix, read_archive, unpack_matrix, write_archive
from glnn.engine.array_file import Spread
from glnn.engine.classifier import build_head
from glnn.engine.fit import FitResult
from glnn.engine.new_nodes import NewNodes
from glnn.engine.packing import (
    fill_networks,
    pack_networks,
    pack_new_rows,
    settings_of,
    unpack_new_rows,
)
from glnn.engine.row_index import known_distributions, row_digests
from glnn.engine.scaling import Scaling
from glnn.engine.sealed import unpacking
from glnn.engine.settings import FitSettings
from glnn.engine.structured import with_columns
from glnn.engine.trained import tempered
from glnn.exceptions import GraphWarning, InputError
from glnn.graph import as_adjacency, prior_graph
from glnn.graph.dense_rows import dense_rows
from glnn.graph.structure import Structure
from glnn.nn.rows import RowNet
from glnn.peers import ALONE, Partition
from glnn.solver import NewRowProblem
from glnn.solver.new_rows import NewLinks

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
