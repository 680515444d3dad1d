"""``GLNNClassifier``: scikit-learn's contract over the rounds of graph and classifier."""

import dataclasses
import numbers
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import validate_data

from glnn._outputs import OutputsMixin
from glnn._parameters import FitParameters
from glnn._saved import SavedMixin
from glnn._validation import check_features
from glnn.data.arguments import as_fit_arguments, plain_features
from glnn.data.row_names import names_of_rows
from glnn.engine.classifier import Labels
from glnn.engine.fit import fit_problem
from glnn.engine.history import History
from glnn.engine.labels import UNLABELLED, encode_labels, split_labels
from glnn.engine.model import Model
from glnn.engine.problem import FitProblem
from glnn.engine.record import FitRecord
from glnn.engine.trainer import Validation
from glnn.exceptions import InputError, NotFittedError
from glnn.graph.convert import as_adjacency, as_adjacency_rows
from glnn.graph.trust import edge_trust
from glnn.peers import ALONE, Partition, Peers
from glnn.peers.group import agreed
from glnn.quality.held_out import HeldOut, of_validation
from glnn.quality.reasons import ReasonsMixin
from glnn.quality.trusted import TrustedMixin
from glnn.quality.weights import label_weights


class GLNNClassifier(
    TrustedMixin,
    ReasonsMixin,
    OutputsMixin,
    SavedMixin,
    ClassifierMixin,  # type: ignore[misc]
    FitParameters,
):
    """Learn a graph from features and a few labels, and classify its nodes.

    Parameters
    ----------
    preset : {"default", "paper", "literal"}, default "default"
        ``default``: the best recipe we measured. ``paper``: the paper's terms, weights and
        network, solved exactly. ``literal``: the paper's optimiser as printed, for the record.
        Parameters below are the preset's where they are ``None``, which is their default.
    head : {"propagation", "gcn", "linear", "hops"}
        The network. ``linear``: one layer on features that were spread over the given graph, small
        steps; ``hops``: a perceptron on a node and each ring of its neighbourhood side by side.
        A head that is named competes with no other.
    random_state : int >= 0, generator or None, default None
        Seed; the same seed gives the same bits on the CPU. ``None``: a new one each time.
    device : default "cpu"
        ``cpu``, or a CUDA device of PyTorch.
    callbacks : default None
        Objects of :class:`glnn.engine.callbacks.Callback` that watch the fit.
    calibrate : {"auto", "folds"} or None, default "auto"
        Where calibrated probabilities come from. ``auto``: the validation nodes, at no cost;
        without them a third of the labels, hidden once, which makes ``fit`` take about twice as
        long. ``folds``: each label hidden once in five fits, six times as long in all, and the
        most exact. ``None``: probabilities stay as the network gives them; nothing is spent. Over
        several processes validation nodes alone calibrate.
    class_weight : "balanced", dictionary or None, default None
        How much labels of each class count, in the losses on labels and on predictions, in the
        choice of the epoch and in calibration. ``balanced``: each class as much as any other.
    verbose : bool, default False
        Whether each step of the fit is written to the standard output, with the time it took.
    weights : Weights
        Of the terms of the graph problem; see :func:`glnn.learn_graph`.
    reading : {"trace", "channel", "frobenius"}
        Of the graph Laplacian regulariser.
    signal : {"l2", "idf", "standardized", "raw", "structure"}
        How features become signals of the graph problem. ``structure``: the smooth part of the
        given graph joins the features and nodes are compared by it, as the default does by itself
        where features say nothing (none, the identity, constants).
    prior : {"binary", "symmetric", "renormalized", "pagerank"}
        How the prior graph is made from the given one.
    support : {"candidates", "all"}
        Which pairs may become edges: given ones and similar ones, or any.
    n_candidates : int >= 1
        Similar rows of each node that are candidates.
    n_neighbors : number > 0
        Wanted mean number of neighbours; sets the weight of sparsity.
    prediction_weight, task_weight : number >= 0
        How much predictions count among the signals, and the classification loss's gradient in
        the graph step, from the second round on.
    metric : {"learned", "fixed"}
        ``learned``: from the second round on, columns count by what they say about the classes.
    n_rounds : int >= 1
        Rounds of graph step and classifier step.
    first_graph : {"prior", "features"}
        What the first classifier sees of a given graph: the prior graph as it is, or the graph
        learned from features.
    scaling : {"auto", "rows", "columns", "trimmed", "unit", "none"}
        How features are scaled; see :class:`glnn.engine.scaling.Scaling`.
    doubts_graph : bool
        Whether probes decide how far a given graph is trusted: left out where features alone
        serve the labels clearly better, followed more closely where it does. With validation
        nodes lower degrees of closeness are tried where the graph is not by far the better source.
    competes : bool
        Whether the heads ``linear`` and ``hops`` (and a perceptron on the features alone) are
        trained too in the first round, where something can judge them. The best is taken, and
        those that cannot be told apart from it answer together with it.
    selection : {"auto", "schedule", "folds"}
        Who judges competitors where there are no validation nodes. ``folds``: labels that are
        hidden in turn, which takes three further trainings of each head. ``schedule``: nobody,
        and the number of labels says how cautious the head is. ``auto``, the presets': ``folds``
        where a graph is given with 15 labels a class or more.
    n_hidden : int >= 1
        Hidden units of the network.
    dropout, drop_node, teleport : number in [0, 0.99]
        Share of entries and of nodes that are dropped in training, and PageRank's teleport (0:
        mean of powers). The last two are of the head ``propagation``.
    n_steps, n_views : int
        Of the head ``propagation``: steps over the graph (>= 0), random views an epoch (>= 1).
    consistency_weight, smoothness_weight : number >= 0
        Weights of the losses on predictions: agreement of views, and the graph Laplacian
        regulariser on the predictions.
    gate : number in [0, 0.99]
        How far above chance a prediction must be to take part in them. The preset's follows the
        number of classes and, for few labels, a choice.
    learning_rate : number > 0
        Adam's step size.
    weight_decay : number >= 0
        Of the first layer.
    n_epochs : int >= 1
        Epochs of a round.

    Attributes
    ----------
    classes_
        The sorted labels.
    transduction_, label_distributions_
        Label and calibrated class probabilities of every training row.
    raw_distributions_
        The same before calibration.
    calibration_
        The map from raw to calibrated probabilities, a :class:`glnn.quality.Calibration`.
    held_out_
        Predictions of labels that were hidden, a :class:`glnn.quality.HeldOut`, or ``None``.
    row_names_
        Names of the training rows, from ``ids`` or the index of ``X``; ``None`` without any.
    graph_, prior_graph_
        The learned graph and the prior graph, scipy CSR; the latter is ``None`` without a given
        graph, or if the fit chose not to trust it.
    edge_trust_
        For each given edge the share of its weight that the learned graph kept, from 0 (dropped) to
        1, scipy CSR; ``None`` where ``prior_graph_`` is.
    n_edges_
        Number of learned edges, loops aside, which ``graph_`` stores, too.
    certificate_
        What is proven about the learned graph; ``None`` for the preset ``literal``.
    choices_
        What the fit chose by itself: source (``given`` graph, ``features`` in spite of one, or
        ``none`` given), signal, closeness, gate, head (or heads that answer together), steps and
        number of rounds.
    history_
        Every epoch's named numbers.
    n_iter_
        Number of epochs over all rounds.
    seed_
        The seed that was used.
    n_features_in_
        Number of columns of the features.

    Notes
    -----
    Of several processes each calls ``fit`` with its rows. Attributes with a row a node then are
    those of all nodes in process 0, and those of its rows in every other one.

    Without ``validation`` the schedule takes no label away: every labelled row trains, the number
    of epochs is fixed, and the last epoch counts. With it, the epoch with the lowest loss on those
    rows counts; they never train.

    Prediction on rows that were in the training data returns their transductive answer (for a row
    that equals several, the mean of theirs); any other row is a new node, whose links are the
    answer of the one-row graph problem.

    Examples
    --------
    >>> X = np.array([[0.0, 1.0], [0.1, 1.0], [1.0, 0.0], [1.0, 0.1]])
    >>> clf = GLNNClassifier(n_epochs=20, random_state=0).fit(X, [0, -1, 1, -1])
    >>> clf.predict([[0.0, 0.9]])
    array([0])
    """

    def fit(
        self,
        X: Any,
        y: Any = None,
        graph: Any = None,
        validation: Any = None,
        *,
        ids: Any = None,
        sample_weight: Any = None,
        peers: Peers = ALONE,
        checkpoint: str | Path | None = None,
    ) -> "GLNNClassifier":
        """Learn graph and classifier together.

        Parameters
        ----------
        X
            Features, nodes x columns, dense or sparse: arrays, tensors or a frame of numbers, whose
            index names the rows. Or a whole ``NodeData`` or PyG ``Data``, which also brings labels
            (those of its training and validation nodes), graph and validation nodes. ``None``:
            there is nothing but a graph; the index of a series ``y`` then names the rows.
        y
            One label a row, of any sortable type; ``-1`` (or ``None``, NaN, ``pd.NA``, empty text)
            marks an unlabelled row.
        graph
            ``None``, a scipy sparse or dense adjacency matrix, a ``2 x E`` array of node numbers,
            or PyG ``Data``; or a networkx graph or a frame of edges (source, target, perhaps
            weight), whose names are matched with those of the rows.
        validation
            Numbers or mask of labelled rows used for choosing the epoch only.
        ids
            Names of the rows; by default the index of a frame ``X``, else they are numbered from 0.
        sample_weight
            How much the label of each row counts, at least 0; rows without one take no part.
        peers
            The processes of this fit (:func:`glnn.peers.group.joined_peers`). With several, ``X``
            and ``graph`` (scipy sparse, rows x N) are the rows that
            ``glnn.peers.Partition(len(y), peers)`` gives to this one, as arrays; ``y`` and
            ``validation`` are the same everywhere.
        checkpoint
            Folder for the state after each round, to go on from after an interruption.
        """
        self._check_calibrate()
        self.row_names_ = None
        if peers.size == 1:
            self.row_names_ = names_of_rows(X, y, ids)
            X, y, graph, validation = as_fit_arguments(X, y, graph, validation, ids)
        checked: list[tuple[dict[str, Any], FitProblem]] = []
        agreed(
            peers,
            lambda: checked.append(
                (self._plan(), self._problem(X, y, validation, peers, sample_weight))
            ),
        )
        plan, problem = checked[0]
        if graph is not None:
            problem = dataclasses.replace(problem, graph=_adjacency(graph, problem.partition))
        if not isinstance(self.random_state, numbers.Integral):
            plan["seed"] = int(peers.broadcast(float(plan["seed"])))  # it was drawn
        folder = None if checkpoint is None else Path(checkpoint)
        result = fit_problem(problem, **plan, checkpoint=folder)
        self._keep(Model.of(problem.features, result), result.history)
        self._record = FitRecord.of(problem, result.learned or result.shares)
        self.certificate_, self.choices_ = result.certificate, result.choices
        self.seed_ = plan["seed"]
        if peers.size == 1:
            self._calibrate(X, y, graph, validation, sample_weight)
        else:
            self.trust(self._judged_by_validation(problem))
        return self

    def _judged_by_validation(self, problem: FitProblem) -> HeldOut | None:
        """Return what a fit over several processes says of the validation nodes, in the first."""
        nodes = problem.validation
        if problem.peers.rank or nodes is None or self.calibrate is None:
            return None
        encoded = np.full(problem.labels.n_nodes, UNLABELLED, dtype=np.int64)
        encoded[nodes.nodes.numpy()] = nodes.labels.numpy()
        return of_validation(self.raw_distributions_, encoded, nodes.nodes.numpy())

    @property
    def edge_trust_(self) -> sp.csr_matrix | None:
        """For each given edge the share of its weight that was kept."""
        graph, prior = self.graph_, self.prior_graph_
        has_all = prior is not None and graph.shape[0] == graph.shape[1]
        return edge_trust(graph, prior) if has_all else None

    @property
    def n_edges_(self) -> int:
        """Number of learned edges, loops aside."""
        return int(sp.triu(self.graph_, k=1).nnz)

    def predict_proba(self, X: Any, links: Any = None) -> np.ndarray:
        """Return class probabilities of rows, from training or new.

        Parameters
        ----------
        X
            Features, as in ``fit``; ``None`` after a fit without any: then all training rows are
            meant, or the new ones that ``links`` have.
        links
            Known edges of new rows to the training rows (rows x training rows), if the model was
            fitted with a graph. Given links make every row a new node.
        """
        raw = self._raw_proba(X, links)
        return self.calibration_.apply(raw)

    def _raw_proba(self, X: Any, links: Any) -> np.ndarray:
        """Return class probabilities as the network gives them."""
        self._check_fitted()
        if X is None:
            X = self._no_features(links)
        return self._model.predict_proba(self._checked(X, reset=False), links)

    def _no_features(self, links: Any) -> sp.csr_matrix:
        """Return rows of a fit without features: those of training, or of new nodes with links."""
        n_nodes = len(self._model.distributions)
        if self._model.structure is None or self.n_features_in_ != n_nodes:
            raise InputError("X must hold features as in fit, got None.")
        if links is None:
            return sp.identity(n_nodes, dtype=np.float32, format="csr")
        return sp.csr_matrix((links.shape[0], n_nodes), dtype=np.float32)

    def predict(self, X: Any, links: Any = None) -> np.ndarray:
        """Return the most probable label of each row."""
        best = self.predict_proba(X, links).argmax(1)
        return np.asarray(self.classes_[best])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _keep(self, model: Model, history: History) -> None:
        self._model, self.history_ = model, history
        self.raw_distributions_ = model.whole("distributions")
        self.graph_, self.prior_graph_ = model.whole("adjacency"), model.whole("prior")
        self.n_iter_ = len(history)

    def _problem(
        self, X: Any, y: Any, validation: Any, peers: Peers, sample_weight: Any = None
    ) -> FitProblem:
        """Check the arguments of ``fit`` but for the graph, and number the classes."""
        X = self._checked(X, reset=True)
        if y is None:
            raise InputError("GLNNClassifier requires y to be passed, but the target y is None.")
        n_nodes = X.shape[0] if peers.size == 1 else len(y)
        if n_nodes < 2:
            raise InputError("X must have at least two rows, got n_samples = 1.")
        partition = Partition(n_nodes, peers)
        if X.shape[0] != partition.n_rows:
            raise InputError(
                f"X must have {partition.n_rows} rows in process {peers.rank}, those that "
                f"glnn.peers.Partition(len(y), peers).rows names, got {X.shape[0]}."
            )
        self.classes_, encoded = encode_labels(y, n_nodes)
        train, held = split_labels(encoded, validation, len(self.classes_))
        labels = Labels(train, encoded[train], n_nodes, len(self.classes_))
        chosen = None
        if held.size:
            chosen = Validation(torch.from_numpy(held), torch.from_numpy(encoded[held]))
        weights = label_weights(self.class_weight, sample_weight, self.classes_, encoded)
        if weights is not None:
            labels = labels.weighted(weights[train])
            chosen = None if chosen is None else chosen.weighted(weights[held])
        return FitProblem(X, labels, None, chosen, peers)

    def _checked(self, X: Any, *, reset: bool) -> Any:
        """Check features with our own messages, and their number with scikit-learn's."""
        try:
            X = validate_data(
                self,
                plain_features(X),
                accept_sparse="csr",
                dtype=None,
                ensure_all_finite=False,
                ensure_min_samples=0,
                ensure_min_features=0,
                reset=reset,
            )
        except ValueError as error:
            raise InputError(" ".join(str(error).split())) from None
        return check_features("X", X)

    def _check_fitted(self) -> None:
        if not hasattr(self, "_model"):
            raise NotFittedError("This GLNNClassifier is not fitted yet; call fit first.")


def _adjacency(graph: Any, partition: Partition) -> sp.csr_matrix:
    """Return a checked graph, or this process's rows of it."""
    if partition.peers.size == 1:
        return as_adjacency(graph, partition.n_nodes)
    return as_adjacency_rows(graph, partition)
