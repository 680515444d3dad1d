"""What a fitted classifier says about its reasons; a part of ``GLNNClassifier``."""

import dataclasses
from collections.abc import Sequence
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from glnn._validation import check_indices, check_integer
from glnn.data.row_names import name_column, row_number
from glnn.engine.callbacks import told_of_stage
from glnn.engine.labels import UNLABELLED, as_labels, is_unlabelled
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
from glnn.quality.left_out import is_quickly_refitted, left_out_effects
from glnn.quality.suggest import attention, most_telling

if TYPE_CHECKING:
    from pandas import DataFrame


class ReasonsMixin:
    """Why a node got its class, which columns count, and what to label next.

    A class that mixes it in sets ``classes_`` and ``label_distributions_`` in ``fit``, and keeps
    its model as ``_model`` and what it was told as ``_record``; where rows have names, they are
    ``row_names_``.
    """

    classes_: np.ndarray
    label_distributions_: np.ndarray
    n_features_in_: int
    _model: Model
    _record: FitRecord
    _sample_weight: Any
    _left_out: np.ndarray | None = None  # effects of all labels on all rows, once they are known
    seed_: int

    def explain(
        self,
        node: int | str,
        *,
        n_links: int = 10,
        n_labels: int = 10,
        refits: int | None = None,
        column_names: Sequence[str] | None = None,
    ) -> Explanation:
        """Say why a training row got its class.

        Parameters
        ----------
        node : int or str
            Number of the row, or its name as text: that of ``ids`` or of the index of ``X``.
        n_links, n_labels : int >= 0, default 10
            How many links and labelled rows to name.
        refits : int >= 0 or None, default None
            How the effects of labels are found. 0: they are estimates, at once. Otherwise the
            labels with the largest estimates are really left out, one at a time, and this many fits
            with and without each are compared: ``refits * (n_labels + 1)`` of them, each with its
            calibration. That needs the data, so the fit must have been made in this session.
            ``None``: where 80 fits of at most 1,000 rows and 100,000 numbers will do, every label
            is left out once, with the seed of this fit, at the first call; elsewhere, and after
            loading, effects are estimates.
        column_names
            Names of the feature columns; ``None``: those of the training table, else numbers.

        Returns
        -------
        Explanation
            The heaviest links with what each term of the graph problem gives to their weight, the
            labelled rows that speak for and against, and the columns that made the links.
        """
        if refits is not None:
            check_integer("refits", refits, low=0)
        nodes = self.fitted_nodes(column_names)
        node = row_number(node, self._row_names())
        found = explain(nodes, node, n_links=n_links, n_labels=n_labels)
        if refits == 0 or n_labels == 0:
            return found
        if refits is None:
            labelled, effects = nodes.trained, self._effects_of_all(nodes)
        else:
            labelled = np.array([voice.node for voice in found.voices], dtype=np.int64)
            effects = self._measured_effects(labelled, refits)
        if effects is None:
            return found
        others = labelled != node
        voices = voices_of(nodes, labelled[others], effects[others, node])[:n_labels]
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
            One line for each suggestion, the best first: the row's number (``node``), its ``name``
            where rows have names, what is ``predicted`` now with which ``probability``, and the
            ``gain``: by how much the label would lower the variance of all rows, weighted by how
            uncertain they are.
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
            **name_column(self._row_names(), chosen),
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

    def _effects_of_all(self, nodes: FittedNodes) -> np.ndarray | None:
        """Return the effects of all labels on all rows; ``None`` where they cannot be had soon."""
        n_fits = (len(nodes.trained) + 1) * self._fits_of_one()  # type: ignore[attr-defined]
        is_quick = is_quickly_refitted(n_fits, nodes.features.shape)
        if not is_quick or not hasattr(self, "_fitted_to"):
            return None
        if self._left_out is None:
            self._left_out = self._measured_effects(nodes.trained, 1)
        return self._left_out

    def _measured_effects(self, labelled: np.ndarray, n_seeds: int) -> np.ndarray:
        """Leave labels out one at a time, with the seed of this fit and others."""
        if not hasattr(self, "_fitted_to"):
            raise InputError("refits must be 0 for a model that was loaded, which has no data.")
        self._check_unchanged()  # type: ignore[attr-defined]
        seeds = [self.seed_ ^ k for k in range(n_seeds)]  # its own first, and no larger ones
        refit = partial(self._refit, calibrate=self.calibrate)  # type: ignore[attr-defined]
        with told_of_stage(self._callbacks(), "labels left out"):  # type: ignore[attr-defined]
            return left_out_effects(refit, labelled, seeds)

    def _row_names(self) -> np.ndarray | None:
        """Return the names of the training rows, if they have any."""
        return getattr(self, "row_names_", None)

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
