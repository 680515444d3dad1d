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
from glnn.engine.classifier import build_head
from glnn.engine.fit import FitResult
from glnn.engine.new_nodes import TrainedNetwork
from glnn.engine.row_index import known_distributions, row_digests
from glnn.engine.scaling import Scaling
from glnn.engine.settings import FitSettings, GraphSettings, HeadSettings
from glnn.exceptions import CheckpointError, GraphWarning, InputError
from glnn.objective import Weights
from glnn.objective.new_row import RowShare
from glnn.solver import FeatureSignal, NewRowProblem
from glnn.solver.prior_rows import PriorRows

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
    network
        The trained network.
    rows
        The one-row problem of new nodes; ``None`` where there is no rule for them.
    distrusts_graph
        Whether a graph was given but the fit went on without it: links do not count then.
    """

    settings: FitSettings
    scaling: Scaling
    adjacency: sp.csr_matrix
    prior: sp.csr_matrix | None
    distributions: np.ndarray
    features: Any
    digests: np.ndarray
    network: nn.Module
    rows: NewRowProblem | None
    distrusts_graph: bool = False

    @classmethod
    def of(cls, features: Any, result: FitResult) -> "Model":
        """Keep what a fit left that prediction needs."""
        literal = result.settings.is_literal
        network = result.task.module["network"] if literal else result.task.module  # type: ignore[index]
        return cls(
            result.settings,
            result.scaling,
            result.adjacency,
            result.prior,
            result.probabilities,
            result.scaled,
            row_digests(features),
            network,
            result.rows,
            result.distrusts_graph,
        )

    def predict_proba(self, features: Any, links: Any = None) -> np.ndarray:
        """Return class probabilities of rows, known or new; see the estimator for the rule."""
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
        if self.rows is None:
            raise InputError(
                f"the preset {self.settings.preset!r} has no rule for new rows, got some. "
                "Fit with preset 'default' or 'paper'."
            )
        if links is not None and self.distrusts_graph:
            warnings.warn(
                "links are ignored: the fit found that its features alone classify better than "
                "with the given graph. Fit with doubts_graph=False to keep the graph.",
                GraphWarning,
                stacklevel=4,
            )
            links = None
        scaled = self.scaling.apply(features)
        own_scale = self.scaling.kind in ("rows", "none")
        new = self.rows.connect(features if own_scale else scaled, links)
        trained = TrainedNetwork(self.network, self.adjacency, self.features)
        return trained.predict(scaled, new.links, new.loops)

    def save(
        self, folder: Path, page: dict[str, Any], more: Mapping[str, np.ndarray] | None = None
    ) -> None:
        """Write the model into a folder, with further facts for its page and further arrays."""
        arrays: dict[str, np.ndarray] = {
            **{f"{_MORE}{name}": array for name, array in (more or {}).items()},
            "distributions": self.distributions,
            "digests": self.digests,
            "scaling.center": self.scaling.center,
            "scaling.scale": self.scaling.scale,
        }
        for name in ("adjacency", "prior", "features"):
            pack_matrix(name, getattr(self, name), arrays)
        for name, value in self.network.state_dict().items():
            arrays[f"network.{name}"] = value.cpu().numpy()
        facts = {
            "settings": dataclasses.asdict(self.settings),
            "scaling": self.scaling.kind,
            "distrusts_graph": self.distrusts_graph,
            "rows": None if self.rows is None else pack_rows(self.rows, arrays),
        }
        write_archive(folder, arrays, page | facts)

    @classmethod
    def load(cls, folder: Path) -> tuple["Model", dict[str, Any]]:
        """Read a saved model and its page, which has further arrays under ``more``."""
        arrays, page = read_archive(folder)
        page["more"] = {
            name.removeprefix(_MORE): array
            for name, array in arrays.items()
            if name.startswith(_MORE)
        }
        try:
            return _unpack(arrays, page), page
        except (KeyError, TypeError, ValueError, RuntimeError) as error:
            raise CheckpointError(
                f"{folder} is not a complete saved model: {type(error).__name__}: "
                f"{str(error).splitlines()[0] if str(error) else 'no detail'}."
            ) from None


def _unpack(arrays: dict[str, np.ndarray], page: dict[str, Any]) -> Model:
    settings = _settings(page["settings"])
    scaling = Scaling(page["scaling"], arrays["scaling.center"], arrays["scaling.scale"])
    features, distributions = unpack_matrix("features", arrays), arrays["distributions"]
    network = build_head(
        settings.head, features.shape[1], distributions.shape[1], torch.Generator()
    )
    prefix = "network."
    state = {
        name.removeprefix(prefix): torch.from_numpy(array.copy())
        for name, array in arrays.items()
        if name.startswith(prefix)
    }
    network.load_state_dict(state)
    return Model(
        settings,
        scaling,
        unpack_matrix("adjacency", arrays),
        unpack_matrix("prior", arrays),
        distributions,
        features,
        arrays["digests"],
        network,
        None if page["rows"] is None else unpack_rows(page["rows"], arrays),
        page["distrusts_graph"],
    )


def _settings(page: dict[str, Any]) -> FitSettings:
    parts = {name: graph_settings_of(page[name]) for name in ("graph", "no_graph")}
    return FitSettings(
        preset=page["preset"],
        head=HeadSettings(**page["head"]),
        cautious=tuple(HeadSettings(**head) for head in page["cautious"]),
        unwatched=tuple(HeadSettings(**head) for head in page["unwatched"]),
        plain=page["plain"] and HeadSettings(**page["plain"]),
        scaling=page["scaling"],
        doubts_graph=page["doubts_graph"],
        **parts,
    )


def graph_settings_of(page: dict[str, Any]) -> GraphSettings:
    """Return the settings that were written as plain values."""
    changes = {
        "weights": Weights(**page["weights"]),
        "signals": tuple(page["signals"]),
    }
    return GraphSettings(**(page | changes))


def pack_rows(rows: NewRowProblem, arrays: dict[str, np.ndarray]) -> dict[str, Any]:
    """Add the one-row problem to the arrays; return its plain facts."""
    shares, facts = rows.share.packed()
    arrays |= {f"rows.share.{name}": array for name, array in shares.items()}
    for name in ("scale", "shift"):
        pack_matrix(f"rows.transform.{name}", getattr(rows.transform, name), arrays)
    pack_matrix("rows.signal", rows.signal, arrays)
    if rows.prior is not None:
        arrays["rows.prior.degrees"] = rows.prior.degrees
        pack_matrix("rows.prior", rows.prior.prior, arrays)
    return {
        "transform": {"kind": rows.transform.kind, "n_features": rows.transform.n_features},
        "share": facts,
        "prior": None if rows.prior is None else rows.prior.kind,
        "has_loops": rows.has_loops,
        "n_candidates": rows.n_candidates,
    }


def unpack_rows(page: dict[str, Any], arrays: dict[str, np.ndarray]) -> NewRowProblem:
    """Return the one-row problem that :func:`pack_rows` took apart."""
    scale, shift = (unpack_matrix(f"rows.transform.{name}", arrays) for name in ("scale", "shift"))
    prior = None
    if page["prior"] is not None:
        matrix = unpack_matrix("rows.prior", arrays)
        prior = PriorRows(page["prior"], arrays["rows.prior.degrees"], matrix)
    prefix = "rows.share."
    shares = {name.removeprefix(prefix): a for name, a in arrays.items() if name.startswith(prefix)}
    return NewRowProblem(
        FeatureSignal(page["transform"]["kind"], page["transform"]["n_features"], scale, shift),
        unpack_matrix("rows.signal", arrays),
        RowShare.unpacked(shares, page["share"]),
        prior,
        page["has_loops"],
        page["n_candidates"],
    )
