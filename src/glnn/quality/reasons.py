"""What a fitted classifier says about its reasons; a part of ``GLNNClassifier``."""

import dataclasses
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from sklearn.base import clone

from glnn._validation import check_indices, check_integer
from glnn.engine.labels import UNLABELLED, as_labels, encode_labels, is_unlabelled
from glnn.engine.model import Model
from glnn.engine.record import FitRecord
from glnn.exceptions import InputError
from glnn.graph.base import GraphOperator
from glnn.graph.prior import normalized
from glnn.graph.random_walk import RandomWalk, with_loops, without_loops
from glnn.graph.sparse import SparseAdjacency
from glnn.nn.rows import RowNet
from glnn.quality.embedding import Spread, unit_rows
from glnn.quality.explain import Explanation, explain, voices_of
from glnn.quality.fitted import FittedNodes
from glnn.quality.importance import ColumnImportance, column_importance, metric_weights
from glnn.quality.labels import without
from glnn.quality.left_out import left_out_effects
from glnn.quality.suggest import attention, most_telling

if TYPE_CHECKING:
    from pandas import DataFrame


class ReasonsMixin:
    """Why a node got its class, which columns count, and what to label next.

    A class that mixes it in sets ``classes_`` and ``label_distributions_`` in ``fit``, and keeps
    its model as ``_model`` and what it was told as ``_record``.
    """

    classes_: np.ndarray
    label_distributions_: np.ndarray
    n_features_in_: int
    _model: Model
    _record: FitRecord
    _sample_weight: Any

    def explain(
        self,
        node: int,
        *,
        n_links: int = 10,
        n_labels: int = 10,
        refits: int = 0,
        column_names: Sequence[str] | None = None,
    ) -> Explanation:
        """Say why a training row got its class.

        Parameters
        ----------
        node : int
            Number of the row.
        n_links, n_labels : int >= 0, default 10
            How many links and labelled rows to name.
        refits : int >= 0, default 0
            0: effects of labels are estimates, at once. Otherwise the labels with the largest
            estimates are really left out, one at a time, and so many fits with and without each
            are compared: ``refits * (n_labels + 1)`` fits. Needs the data, so the fit must have
            been made in this session.
        column_names
            Names of the feature columns; ``None``: those of the training table, else numbers.

        Returns
        -------
        Explanation
            The heaviest links with what each term of the graph problem gives to their weight, the
            labelled rows that speak for and against, and the columns that made the links.
        """
        check_integer("refits", refits, low=0)
        nodes = self.fitted_nodes(column_names)
        found = explain(nodes, node, n_links=n_links, n_labels=n_labels)
        if not refits:
            return found
        labelled = np.array([voice.node for voice in found.voices], dtype=np.int64)
        effects = left_out_effects(self._refit, labelled, range(refits))[:, node]
        voices = voices_of(nodes, labelled, effects)
        return dataclasses.replace(found, voices=voices, is_measured=True)

    def suggest_labels(self, k: int = 10, among: Any = None) -> "DataFrame":
        """Say which rows to label next: those whose labels would tell most about uncertain rows.

        Parameters
        ----------
        k : int >= 1, default 10
            How many.
        among
            Numbers or mask of the rows that may be suggested; ``None``: all. Rows whose labels
            are known never are.

        Returns
        -------
        DataFrame
            One line for each suggestion, the best first: the row's number (``node``), what is
            ``predicted`` now with which ``probability``, and the ``gain``: by how much the label
            would lower the variance of all rows, weighted by how uncertain they are.
        """
        from pandas import DataFrame

        check_integer("k", k, low=1)
        nodes = self.fitted_nodes()
        every = np.arange(nodes.n_nodes)
        may = every if among is None else check_indices("among", among, nodes.n_nodes)
        pool = np.intersect1d(may, every[nodes.labels == UNLABELLED])
        known = np.flatnonzero(nodes.labels != UNLABELLED)
        weights = attention(nodes.probabilities)
        chosen, gains = most_telling(unit_rows(nodes.rows()), weights, known, pool, k)
        best = nodes.probabilities[chosen].argmax(1)
        columns = {
            "node": chosen,
            "predicted": self.classes_[best],
            "probability": nodes.probabilities[chosen, best],
            "gain": gains,
        }
        return DataFrame(columns)

    def column_importance(
        self,
        X: Any,
        y: Any,
        links: Any = None,
        *,
        n_columns: int = 20,
        n_repeats: int = 5,
        random_state: int = 0,
    ) -> ColumnImportance:
        """Say which feature columns count, on rows whose labels the fit has not seen.

        Each row is classified as a new node, with its columns as they are and with one of them
        shuffled among the rows.

        Parameters
        ----------
        X, y
            Rows and their labels; unlabelled rows are left out.
        links
            Known edges of the rows to the training rows, as in ``predict_proba``.
        n_columns : int >= 1, default 20
            Columns to shuffle: those that count most in the learned similarity.
        n_repeats : int >= 1, default 5
            How often each is shuffled.
        random_state : int >= 0, default 0
            Seed of the shuffling.
        """
        features = self._checked(X, reset=False)  # type: ignore[attr-defined]
        numbers = self._class_numbers(y, features.shape[0])
        judged = np.flatnonzero(numbers != UNLABELLED)
        joined = None if links is None else links[judged]
        nodes = self.fitted_nodes()
        if nodes.compared is not None:
            raise InputError(
                "column_importance must come after a fit that compares features, got one that "
                "compares the graph's structure."
            )
        return column_importance(
            lambda rows: self._model.predict_new(rows, joined),
            features[judged],
            numbers[judged],
            weights=metric_weights(nodes.shares, self.n_features_in_),
            names=nodes.column_names,
            n_columns=n_columns,
            n_repeats=n_repeats,
            seed=check_integer("random_state", random_state, low=0),
        )

    def _refit(self, hidden: np.ndarray, seed: int) -> np.ndarray:
        """Fit again without the labels of some rows; return the probabilities of all rows."""
        if not hasattr(self, "_fitted_to"):
            raise InputError("refits must be 0 for a model that was loaded, which has no data.")
        X, y, graph, validation = self._fitted_to
        classes, encoded = encode_labels(y, len(self.label_distributions_))
        model = clone(self).set_params(calibrate=None, random_state=seed)
        seen = without(classes, encoded, hidden)
        model.fit(X, seen, graph, validation, sample_weight=self._sample_weight)
        return np.asarray(model.label_distributions_)

    def _class_numbers(self, y: Any, n_rows: int) -> np.ndarray:
        """Return the classes of labels by the numbers they have in the fit."""
        labels = as_labels(y)
        if labels.shape != (n_rows,):
            raise InputError(f"y must have one label a row, {n_rows}, got shape {labels.shape}.")
        known = ~is_unlabelled(labels)
        unknown = [label for label in labels[known].tolist() if label not in self.classes_]
        if unknown:
            raise InputError(f"y must hold labels of the fit, got {unknown[0]!r}.")
        numbers = np.full(n_rows, UNLABELLED, dtype=np.int64)
        numbers[known] = np.searchsorted(self.classes_, labels[known])
        return numbers

    def fitted_nodes(self, column_names: Sequence[str] | None = None) -> FittedNodes:
        """Return the training rows as explanations see them.

        Parameters
        ----------
        column_names
            Names of the feature columns; ``None``: those of the training table, else numbers.
        """
        self._check_fitted()  # type: ignore[attr-defined]
        model = self._model
        names = column_names or getattr(self, "feature_names_in_", None)
        if names is None:
            names = [str(number) for number in range(self.n_features_in_)]
        compared = model.structure_columns()
        if compared is not None:
            names = [f"structure {number}" for number in range(compared.shape[1])]
        return FittedNodes(
            model.adjacency,
            model.features,
            _spread_of(model),
            self._record.labels,
            np.flatnonzero(self._record.trains),
            self.label_distributions_,
            self.classes_,
            [str(name) for name in names],
            self._record.shares,
            compared,
        )


def _spread_of(model: Model) -> Spread:
    """Return how the first network spreads signals over the graph that it sees, once it is asked.

    Where a head keeps the hops apart, the mean over them.
    """
    network: Any = model.networks[0]
    is_on_rows = isinstance(network, RowNet)

    @cache
    def graph() -> GraphOperator:
        if not is_on_rows:
            return SparseAdjacency.from_scipy(normalized(model.adjacency))
        seen = with_loops if network.needs_loops else without_loops
        return RandomWalk.of(seen(model.row_graph), dtype=torch.float64)

    def spread(signals: np.ndarray) -> np.ndarray:
        columns = torch.from_numpy(np.ascontiguousarray(signals, dtype=np.float64))
        with torch.no_grad():
            found = network.spread(graph(), columns)
        heard: np.ndarray = (found.mean(1) if is_on_rows else found).numpy()
        return heard

    return spread
