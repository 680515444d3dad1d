"""Rivals that a fit is compared with, and the base classes of the laboratory's baselines.

Largest class, logistic regression, label spreading and boosted trees; with a graph also a GCN on
it, and logistic regression and boosted trees on rows joined with the means of their neighbours.
"""

import dataclasses
import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np
import scipy.sparse as sp
import torch
from sklearn import config_context
from sklearn.base import clone
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.feature_selection import SelectKBest
from sklearn.linear_model import LogisticRegression as SklearnLogisticRegression
from sklearn.neighbors import NearestNeighbors, kneighbors_graph
from sklearn.preprocessing import normalize, scale
from sklearn.semi_supervised import LabelSpreading as SklearnSpreading
from sklearn.utils import _safe_indexing

from glnn._utils import check_choice, check_features, check_indices, check_integer, check_number
from glnn.engine.callbacks import Callback, EarlyStopping
from glnn.engine.inputs import Scaling, make_generator
from glnn.engine.settings import HeadSettings
from glnn.engine.tasks import ClassifierTask, Labels, TrainingTask, Validation
from glnn.engine.trainer import Trainer
from glnn.exceptions import InputError
from glnn.graph.convert import as_adjacency
from glnn.nn.features import Features

# Problem


@dataclass(frozen=True, eq=False)
class NodeProblem:
    """A checked node classification problem with the labels that a method may use.

    Examples
    --------
    >>> problem = NodeProblem(np.eye(3), None, np.array([0, 1, 1]), np.array([0, 1]))
    >>> problem.labels.tolist(), problem.n_classes
    ([0, 1, -1], 2)
    """

    features: Any  # nodes x features, dense or CSR; each method scales them itself
    graph: Any  # symmetric CSR without loops, or None
    labels: np.ndarray  # class of each node; -1 outside train and validation
    train: np.ndarray  # node numbers
    validation: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    n_classes: int = 0  # 0: one more than the largest label

    def __post_init__(self) -> None:
        features = check_features("features", self.features)
        n_nodes = features.shape[0]
        train = check_indices("train", self.train, n_nodes)
        validation = check_indices("validation", self.validation, n_nodes)
        if train.size == 0:
            raise InputError("train must name at least one labelled node, got none.")
        if np.intersect1d(train, validation).size:
            raise InputError("train and validation must not share nodes.")
        labels = self._visible(n_nodes, np.concatenate([train, validation]))
        n_classes = self.n_classes or int(labels.max()) + 1
        check_integer("n_classes", n_classes, low=int(labels.max()) + 1)
        values = {"features": features, "labels": labels, "train": train, "n_classes": n_classes}
        values["validation"] = validation
        values["graph"] = None if self.graph is None else as_adjacency(self.graph, n_nodes)
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def _visible(self, n_nodes: int, seen: np.ndarray) -> np.ndarray:
        labels = np.asarray(self.labels)
        if labels.shape != (n_nodes,) or labels.dtype.kind not in "iu":
            raise InputError(
                f"labels must be whole numbers, one for each of the {n_nodes} nodes, "
                f"got dtype {labels.dtype} and shape {labels.shape}."
            )
        visible = np.full(n_nodes, -1, dtype=np.int64)
        visible[seen] = labels[seen]
        if visible[seen].min() < 0:
            raise InputError("labels of train and validation nodes must be 0 or more, got -1.")
        return visible

    @property
    def n_nodes(self) -> int:
        """Number of nodes."""
        return int(self.features.shape[0])

    @property
    def train_labels(self) -> np.ndarray:
        """The class of each training node, -1 elsewhere."""
        labels = np.full(self.n_nodes, -1, dtype=np.int64)
        labels[self.train] = self.labels[self.train]
        return labels

    def validation_set(self) -> Validation | None:
        """Return the nodes that choose the epoch, or ``None`` if there are none."""
        if self.validation.size == 0:
            return None
        classes = torch.from_numpy(self.labels[self.validation])
        return Validation(torch.from_numpy(self.validation), classes)


# Base classes

INIT, NOISE, SAMPLES = 0, 1, 2  # numbered streams of one seed


@dataclass(frozen=True, eq=False)
class Prediction:
    """Class probabilities of every node, N x C, and what they cost."""

    probabilities: np.ndarray
    n_epochs: int = 0
    seconds: float = 0.0

    @property
    def classes(self) -> np.ndarray:
        """The most probable class of every node."""
        return np.asarray(self.probabilities.argmax(1))


@dataclass(frozen=True, kw_only=True)
class TrainSettings:
    """Settings of the training loop; the defaults of each method are the published ones.

    ``patience`` epochs without a lower validation loss end the training; ``None`` never does.
    """

    n_epochs: int = 200
    learning_rate: float = 0.01
    weight_decay: float = 5e-4
    patience: int | None = None

    def __post_init__(self) -> None:
        check_integer("n_epochs", self.n_epochs, low=1)
        check_number("learning_rate", self.learning_rate, low=0, open_low=True)
        check_number("weight_decay", self.weight_decay, low=0)
        if self.patience is not None:
            check_integer("patience", self.patience, low=1)


class Baseline(ABC):
    """A method to compare with: it differs from the others by its model and objective only.

    A subclass is a frozen dataclass with one field, ``settings``. The epoch with the lowest
    validation loss within ``settings.n_epochs`` counts; without validation nodes, or where
    ``chooses_epoch`` is false, the last.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    paper: ClassVar[str]
    needs_graph: ClassVar[bool] = True
    is_trained: ClassVar[bool] = True
    chooses_epoch: ClassVar[bool] = True
    settings: Any

    def build(self, problem: NodeProblem, seed: int) -> TrainingTask:
        """Return the untrained model with its objective, all randomness drawn from ``seed``."""
        self.check(problem)
        return self.task(problem, check_integer("seed", seed, low=0))

    @abstractmethod
    def task(self, problem: NodeProblem, seed: int) -> TrainingTask:
        """Make the task of a problem that passed :meth:`check`."""

    def check(self, problem: NodeProblem) -> None:
        """Refuse a problem that the method cannot take."""
        if self.needs_graph and problem.graph is None:
            raise InputError(
                f"{self.name} needs a graph, and none is given. Give one, or leave this method out."
            )

    def describe_limits(self, problem: NodeProblem) -> str:
        """Return a note on data that the method does not use; empty if it uses all."""
        return ""

    def fit_predict(self, problem: NodeProblem, seed: int) -> Prediction:
        """Train on the visible labels and return the class probabilities of every node."""
        started = time.perf_counter()
        task = self.build(problem, seed)
        n_epochs = self.train(task, problem)
        with torch.no_grad():
            probabilities = task.scores().double().softmax(1).numpy()
        return Prediction(probabilities, n_epochs, time.perf_counter() - started)

    def train(self, task: TrainingTask, problem: NodeProblem) -> int:
        """Run the one training loop on a task; return how many epochs it took."""
        validation = problem.validation_set() if self.chooses_epoch else None
        stop: list[Callback] = []
        if validation is not None and self.settings.patience is not None:
            stop = [EarlyStopping(self.settings.patience)]
        trainer = Trainer(
            n_epochs=self.settings.n_epochs,
            learning_rate=self.settings.learning_rate,
            callbacks=stop,
        )
        return len(trainer.fit(task, validation, stage=self.name))


class ClosedForm(Baseline):
    """A control without a network: it overrides :meth:`predict` and is not trained in epochs."""

    is_trained = False

    def task(self, problem: NodeProblem, seed: int) -> TrainingTask:
        """Refuse: there is nothing for the training loop to do."""
        raise InputError(f"{self.name} has no network to train; call fit_predict.")

    @abstractmethod
    def predict(self, problem: NodeProblem, seed: int) -> np.ndarray:
        """Return the class probabilities of every node."""

    def fit_predict(self, problem: NodeProblem, seed: int) -> Prediction:
        """Return the class probabilities of every node."""
        self.check(problem)
        started = time.perf_counter()
        probabilities = self.predict(problem, check_integer("seed", seed, low=0))
        return Prediction(probabilities, 0, time.perf_counter() - started)


def expand_classes(probabilities: np.ndarray, classes: np.ndarray, n_classes: int) -> np.ndarray:
    """Expand the columns of the seen classes to all ``n_classes``; the others are 0.

    Examples
    --------
    >>> expand_classes(np.array([[0.25, 0.75]]), np.array([0, 2]), 3)
    array([[0.25, 0.  , 0.75]])
    """
    spread = np.zeros((len(probabilities), n_classes))
    spread[:, classes.astype(np.int64)] = probabilities
    return spread


# Nearest-neighbour graph


def cosine_graph(features: Any, n_neighbors: int) -> sp.csr_matrix:
    """Link each node with the ``n_neighbors`` nodes of highest cosine; symmetric, weights 1.

    The search is exact and works through blocks of rows, so no n x n matrix is stored. A node
    without features has no direction, so it gets no links; neither do nodes at right angles.

    Examples
    --------
    >>> x = np.array([[1.0, 0.0], [2.0, 0.1], [0.0, 1.0], [0.0, 0.0]])
    >>> cosine_graph(x, 1).toarray()
    array([[0., 1., 0., 0.],
           [1., 0., 1., 0.],
           [0., 1., 0., 0.],
           [0., 0., 0., 0.]])
    """
    n_nodes = features.shape[0]
    wanted = min(n_neighbors, n_nodes - 1)
    if wanted == 0:
        return sp.csr_matrix((n_nodes, n_nodes))
    search = NearestNeighbors(n_neighbors=wanted, metric="cosine", algorithm="brute")
    with config_context(working_memory=128):  # MB of distances at a time
        distances, neighbors = search.fit(features).kneighbors()
    rows = np.repeat(np.arange(n_nodes), wanted)
    columns, near = neighbors.ravel(), distances.ravel() < 1 - 1e-12
    ones = np.ones(int(near.sum()))
    graph = sp.csr_matrix((ones, (rows[near], columns[near])), shape=(n_nodes, n_nodes))
    return sp.csr_matrix(graph.maximum(graph.T))


# Scaling of features


def comparable_features(features: Any) -> Any:
    """Return what a method to compare with sees of a table, by glnn's own rule for scaling.

    Columns of different units get mean 0 and variance 1; without that the largest unit would
    drown the others. Bags of words and pixels stay as they are: each method scales them itself.

    Examples
    --------
    >>> comparable_features(np.array([[1.0, 5.0, 2000.0], [3.0, 7.0, 4000.0]])).tolist()
    [[-1.0, -1.0, -1.0], [1.0, 1.0, 1.0]]
    """
    scaling = Scaling.fit(features)
    return scaling.apply(features) if scaling.kind == "columns" else features


def normalize_row_sums(features: Any) -> Any:
    r"""Return :math:`X_{id} / \sum_e X_{ie}`, the bag-of-words scaling of Kipf and Welling.

    Rows of zeros stay zero. Where a feature is negative row sums mean nothing: then each column
    is shifted and scaled to mean 0 and variance 1 instead (scaled alone, if sparse).

    Examples
    --------
    >>> normalize_row_sums(np.array([[1.0, 3.0], [0.0, 0.0]]))
    array([[0.25, 0.75],
           [0.  , 0.  ]])
    """
    stored = features.data if sp.issparse(features) else features
    if stored.size and stored.min() < 0:
        return standardize_columns(features)
    return normalize(features, norm="l1")


def standardize_columns(features: Any) -> Any:
    """Return columns of mean 0 and variance 1; sparse columns are scaled but not shifted.

    Examples
    --------
    >>> standardize_columns(np.array([[1.0, 5.0], [3.0, 5.0]]))
    array([[-1.,  0.],
           [ 1.,  0.]])
    """
    return scale(features.astype(np.float64), with_mean=not sp.issparse(features))


def scale_features(features: Any) -> Any:
    """Return dense features standardised, and sparse ones with rows of length one."""
    return normalize(features) if sp.issparse(features) else standardize_columns(features)


# GCN


@dataclass(frozen=True, kw_only=True)
class GCNSettings(TrainSettings):
    """Published for the citation networks: 200 epochs, decay on the first layer alone."""

    n_hidden: int = 16
    dropout: float = 0.5


@dataclass(frozen=True)
class GCN(Baseline):
    """The two-layer GCN of Kipf and Welling on the given graph."""

    name: ClassVar[str] = "gcn"
    title: ClassVar[str] = "GCN"
    paper: ClassVar[str] = (
        "Kipf and Welling, Semi-supervised classification with graph convolutional networks, "
        "ICLR 2017"
    )
    settings: GCNSettings = GCNSettings()

    def links(self, problem: NodeProblem) -> sp.csr_matrix:
        """Return the graph that the network passes messages on, without loops."""
        return problem.graph

    def task(self, problem: NodeProblem, seed: int) -> ClassifierTask:
        """Make the two-layer network on the graph with loops."""
        s = self.settings
        return ClassifierTask(
            sp.csr_matrix(self.links(problem) + sp.eye(problem.n_nodes)),
            Features.of(normalize_row_sums(problem.features)),
            Labels(
                problem.train, problem.labels[problem.train], problem.n_nodes, problem.n_classes
            ),
            HeadSettings(n_hidden=s.n_hidden, dropout=s.dropout, weight_decay=s.weight_decay),
            init=make_generator(seed, INIT),
            noise=make_generator(seed, NOISE),
        )


@dataclass(frozen=True, kw_only=True)
class KnnGCNSettings(GCNSettings):
    """GCN's settings, on 20 neighbours by cosine."""

    n_neighbors: int = 20


@dataclass(frozen=True)
class KnnGCN(GCN):
    """GCN on the cosine graph of the features; a given graph is not looked at."""

    name: ClassVar[str] = "knn_gcn"
    title: ClassVar[str] = "kNN-GCN"
    paper: ClassVar[str] = "Franceschi et al., Learning discrete structures for GNNs, ICML 2019"
    needs_graph: ClassVar[bool] = False
    settings: KnnGCNSettings = KnnGCNSettings()

    def links(self, problem: NodeProblem) -> sp.csr_matrix:
        """Return the graph of nearest neighbours."""
        return cosine_graph(problem.features, self.settings.n_neighbors)


# Largest class


@dataclass(frozen=True, kw_only=True)
class NoSettings:
    """Nothing to set."""


@dataclass(frozen=True)
class Majority(ClosedForm):
    """scikit-learn's ``DummyClassifier``: every node gets the shares of the classes."""

    name: ClassVar[str] = "majority"
    title: ClassVar[str] = "largest class"
    paper: ClassVar[str] = "the largest class among the labels"
    needs_graph: ClassVar[bool] = False
    settings: NoSettings = NoSettings()

    def predict(self, problem: NodeProblem, seed: int) -> np.ndarray:
        """Count the labels of the training nodes."""
        model = DummyClassifier().fit(problem.train, problem.labels[problem.train])
        shares = model.predict_proba(np.zeros(problem.n_nodes))
        return expand_classes(shares, model.classes_, problem.n_classes)


# Label spreading


@dataclass(frozen=True, kw_only=True)
class LabelSpreadingSettings:
    """The defaults of scikit-learn; the neighbours count where no graph is given.

    ``alpha`` is the share that a node takes from its neighbours.
    """

    n_neighbors: int = 7
    max_iter: int = 100
    alpha: float = 0.2


@dataclass(frozen=True)
class LabelSpreading(ClosedForm):
    r"""Spread labels, :math:`F \leftarrow \alpha D^{-1/2} A D^{-1/2} F + (1 - \alpha) Y`.

    On the given graph; without one, on nearest neighbours.
    """

    name: ClassVar[str] = "label_spreading"
    title: ClassVar[str] = "label spreading"
    paper: ClassVar[str] = "Zhou et al., Learning with local and global consistency, NIPS 2003"
    needs_graph: ClassVar[bool] = False
    settings: LabelSpreadingSettings = LabelSpreadingSettings()

    def predict(self, problem: NodeProblem, seed: int) -> np.ndarray:
        """Spread the labels until they change no more."""
        s = self.settings
        model = SklearnSpreading(
            kernel=make_kernel(problem, s.n_neighbors),
            n_neighbors=s.n_neighbors,
            alpha=s.alpha,
            max_iter=s.max_iter,
        )
        return fit_distributions(model, problem)


def make_kernel(problem: NodeProblem, n_neighbors: int) -> Any:
    """Return the given graph with loops as scikit-learn takes it, or its name of neighbours.

    Rows of zeros are nearer to rows of length one than most of these are to each other, so they
    would become neighbours of all; they get no neighbour but themselves.
    """
    if problem.graph is not None:
        looped = sp.csr_matrix(problem.graph + sp.eye(problem.n_nodes))
        return lambda *_: looped.copy()
    features = scale_features(problem.features)
    filled = np.flatnonzero(abs(features).sum(1))
    if len(filled) in (0, problem.n_nodes):
        return "knn"
    near = sp.coo_matrix(kneighbors_graph(features[filled], n_neighbors, include_self=True))
    entries = (near.data, (filled[near.row], filled[near.col]))
    graph = sp.csr_matrix(entries, shape=(problem.n_nodes, problem.n_nodes))
    alone = np.ones(problem.n_nodes)
    alone[filled] = 0
    graph = sp.csr_matrix(graph + sp.diags(alone))
    return lambda *_: graph.copy()


def fit_distributions(model: Any, problem: NodeProblem) -> np.ndarray:
    """Fit, and return the distribution of every node.

    A node that no label reaches gets the shares of the classes among the labelled nodes.
    """
    known = np.full(problem.n_nodes, -1)
    known[problem.train] = problem.labels[problem.train]
    x = scale_features(problem.features)
    with warnings.catch_warnings():  # as far as max_iter goes is what was asked for
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(x, known)
    reached = expand_classes(model.label_distributions_, model.classes_, problem.n_classes)
    unreached = ~(reached.sum(1) > 0)
    reached[unreached] = Majority().predict(problem, 0)[unreached]
    return np.asarray(reached / reached.sum(1, keepdims=True))


# Logistic regression

PENALTIES = (0.1, 1.0, 10.0, 100.0, 1000.0)
N_FOLDS = 3


@dataclass(frozen=True, kw_only=True)
class LogisticRegressionSettings:
    """The inverse penalty, ``None``: the visible labels choose it; and room to converge."""

    inverse_penalty: float | None = None
    max_iter: int = 2000


@dataclass(frozen=True)
class LogisticRegression(ClosedForm):
    """Multinomial logistic regression; dense features standardised, sparse rows of length 1."""

    name: ClassVar[str] = "logistic_regression"
    title: ClassVar[str] = "logistic regression"
    paper: ClassVar[str] = "scikit-learn LogisticRegression"
    needs_graph: ClassVar[bool] = False
    settings: LogisticRegressionSettings = LogisticRegressionSettings()

    def predict(self, problem: NodeProblem, seed: int) -> np.ndarray:
        """Fit on the labelled nodes, predict all."""
        return fit_logistic_regression(scale_features(problem.features), problem, self.settings)


def fit_logistic_regression(
    x: Any, problem: NodeProblem, settings: LogisticRegressionSettings
) -> np.ndarray:
    """Return the class probabilities of all rows of ``x`` after a fit on the labelled ones."""
    if settings.inverse_penalty is None:
        settings = dataclasses.replace(settings, inverse_penalty=choose_penalty(x, problem))
    classes = problem.labels[problem.train]
    return logistic_probabilities(x, problem.train, classes, problem.n_classes, settings)


def logistic_probabilities(
    x: Any,
    nodes: np.ndarray,
    classes: np.ndarray,
    n_classes: int,
    settings: LogisticRegressionSettings,
) -> np.ndarray:
    """Return the class probabilities of all rows after a fit on some; one class is certain."""
    seen = np.unique(classes)
    if seen.size == 1:  # scikit-learn refuses a single class
        return expand_classes(np.ones((x.shape[0], 1)), seen, n_classes)
    penalty = 1.0 if settings.inverse_penalty is None else settings.inverse_penalty
    model = SklearnLogisticRegression(C=penalty, max_iter=settings.max_iter)
    model.fit(x[nodes], classes)
    return expand_classes(model.predict_proba(x), model.classes_, n_classes)


def choose_penalty(x: Any, problem: NodeProblem) -> float:
    """Return the inverse penalty with the lowest loss on the validation nodes.

    Without validation nodes every third labelled node in turn is left out and predicted. A class
    that a fit has not seen counts as if it had probability 1e-6.
    """
    held = _split_train(problem)

    def loss(penalty: float) -> float:
        total = 0.0
        for nodes, asked in held:
            p = logistic_probabilities(
                x[np.concatenate([nodes, asked])],
                np.arange(nodes.size),
                problem.labels[nodes],
                problem.n_classes,
                LogisticRegressionSettings(inverse_penalty=penalty),
            )[nodes.size :]
            of_truth = p[np.arange(asked.size), problem.labels[asked]]
            total -= float(np.log(np.maximum(of_truth, 1e-6)).sum())
        return total

    return min(PENALTIES, key=loss)


def _split_train(problem: NodeProblem) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return pairs of nodes to fit on and nodes to predict."""
    if problem.validation.size:
        return [(problem.train, problem.validation)]
    by_class = problem.train[np.argsort(problem.labels[problem.train], kind="stable")]
    fold = np.arange(by_class.size) % N_FOLDS
    folds = [(by_class[fold != k], by_class[fold == k]) for k in range(N_FOLDS)]
    return [(nodes, asked) for nodes, asked in folds if nodes.size and asked.size]


# Boosted trees


@dataclass(frozen=True, kw_only=True)
class BoostedTreesSettings:
    """The defaults of scikit-learn; of a wider table only the best columns are used."""

    max_columns: int = 200


@dataclass(frozen=True)
class BoostedTrees(ClosedForm):
    """scikit-learn's ``HistGradientBoostingClassifier``, on dense columns."""

    name: ClassVar[str] = "boosted_trees"
    title: ClassVar[str] = "boosted trees"
    paper: ClassVar[str] = "scikit-learn HistGradientBoostingClassifier"
    needs_graph: ClassVar[bool] = False
    n_blocks: ClassVar[int] = 1  # of columns for each column of the table
    settings: BoostedTreesSettings = BoostedTreesSettings()

    def predict(self, problem: NodeProblem, seed: int) -> np.ndarray:
        """Fit on the labelled nodes, predict all."""
        train, classes = problem.train, problem.labels[problem.train]
        if np.unique(classes).size == 1:
            return Majority().predict(problem, seed)
        x = problem.features
        if x.shape[1] > self.settings.max_columns:
            with warnings.catch_warnings(), np.errstate(invalid="ignore", divide="ignore"):
                warnings.simplefilter("ignore", UserWarning)  # constant columns have no F value
                best = SelectKBest(k=self.settings.max_columns).fit(x[train], classes)
            x = best.transform(x)
        x = x.toarray() if sp.issparse(x) else x
        model = HistGradientBoostingClassifier(random_state=seed).fit(x[train], classes)
        return expand_classes(model.predict_proba(x), model.classes_, problem.n_classes)

    def describe_limits(self, problem: NodeProblem) -> str:
        """Return a note if only a part of the columns is used."""
        n_columns, most = self.n_blocks * problem.features.shape[1], self.settings.max_columns
        if n_columns <= most:
            return ""
        return (
            f"{self.title}: the {most} of {n_columns:,} columns that differ most between the "
            "classes"
        )


# Rows joined with the means of their neighbours


def join_neighbor_means(problem: NodeProblem) -> NodeProblem:
    r"""Return the problem with features :math:`[X, P X, P^2 X]`, :math:`P = D^{-1} A`.

    A node without neighbours has zeros in place of means.

    Examples
    --------
    >>> pair = sp.csr_matrix(np.array([[0, 1.0], [1.0, 0]]))
    >>> problem = NodeProblem(np.array([[1.0], [3.0]]), pair, np.array([0, 1]), np.arange(2))
    >>> join_neighbor_means(problem).features.tolist()
    [[1.0, 3.0, 1.0], [3.0, 1.0, 3.0]]
    """
    x, walk = problem.features, normalize(problem.graph, norm="l1")
    near = walk @ x
    blocks = [x, near, walk @ near]
    joined = sp.hstack(blocks, format="csr") if sp.issparse(x) else np.hstack(blocks)
    return dataclasses.replace(problem, features=joined)


@dataclass(frozen=True)
class NeighborLogisticRegression(LogisticRegression):
    """Logistic regression on each row joined with its neighbours' means at one and two hops."""

    name: ClassVar[str] = "logistic_regression_neighbors"
    title: ClassVar[str] = "logistic regression with neighbours"
    needs_graph: ClassVar[bool] = True

    def predict(self, problem: NodeProblem, seed: int) -> np.ndarray:
        """Join the rows, fit on the labelled nodes, predict all."""
        return super().predict(join_neighbor_means(problem), seed)


@dataclass(frozen=True)
class NeighborBoostedTrees(BoostedTrees):
    """Boosted trees on each row joined with its neighbours' means at one and two hops."""

    name: ClassVar[str] = "boosted_trees_neighbors"
    title: ClassVar[str] = "boosted trees with neighbours"
    needs_graph: ClassVar[bool] = True
    n_blocks: ClassVar[int] = 3

    def predict(self, problem: NodeProblem, seed: int) -> np.ndarray:
        """Join the rows, fit on the labelled nodes, predict all."""
        return super().predict(join_neighbor_means(problem), seed)


# Classifiers of the user


@dataclass(frozen=True, eq=False)
class GivenClassifier:
    """A scikit-learn classifier that the user gave, on the table as it came."""

    name: str
    model: Any
    rows: Any  # the table; None: the features of the problem, which may have been scaled
    classes: np.ndarray  # label of each class number

    @property
    def title(self) -> str:
        """The name to show."""
        return self.name

    def fit_predict(self, problem: NodeProblem, seed: int) -> Prediction:
        """Fit a copy on the labelled rows, and return the class probabilities of all rows."""
        started = time.perf_counter()
        x = problem.features if self.rows is None else self.rows
        labels = self.classes[problem.labels[problem.train]]
        model = clone(self.model).fit(_safe_indexing(x, problem.train), labels)
        if hasattr(model, "predict_proba"):
            found, seen = np.asarray(model.predict_proba(x)), np.asarray(model.classes_)
        else:
            seen = np.unique(labels)
            found = np.asarray(model.predict(x))[:, None] == seen
        probabilities = expand_classes(
            found, np.searchsorted(self.classes, seen), problem.n_classes
        )
        if not np.isfinite(probabilities).all():
            raise InputError("its probabilities are not finite")
        return Prediction(probabilities, seconds=time.perf_counter() - started)

    def describe_limits(self, problem: NodeProblem) -> str:
        """Return an empty text: the classifier gets all rows and columns."""
        return ""


# Choice of rivals


@runtime_checkable
class Rival(Protocol):
    """A method that a fit is compared with: a :class:`Baseline` or a classifier of the user."""

    @property
    def name(self) -> str:
        """The name in code."""

    @property
    def title(self) -> str:
        """The name to show."""

    def fit_predict(self, problem: NodeProblem, seed: int) -> Prediction:
        """Return the class probabilities of every node."""

    def describe_limits(self, problem: NodeProblem) -> str:
        """Return a note on data that the method does not use; empty if it uses all."""


# In the order in which they are shown; those that need a graph are left out without one.
RIVALS: dict[str, Baseline] = {
    method.name: method
    for method in (
        Majority(),
        LogisticRegression(),
        LabelSpreading(),
        BoostedTrees(),
        GCN(),
        NeighborLogisticRegression(),
        NeighborBoostedTrees(),
    )
}

RivalChoice = str | Sequence[str] | Mapping[str, Any] | None


def choose_rivals(
    rivals: RivalChoice, *, has_graph: bool, rows: Any = None, classes: Any = None
) -> tuple[Rival, ...]:
    """Return the rivals that a user asks for; see :func:`glnn.evaluate`.

    ``rows`` is the table for the user's own classifiers, and ``classes`` the sorted labels.

    Examples
    --------
    >>> [rival.title for rival in choose_rivals(["boosted_trees"], has_graph=False)]
    ['boosted trees']
    >>> len(choose_rivals("auto", has_graph=False)), len(choose_rivals("auto", has_graph=True))
    (4, 7)
    """
    if rivals is None:
        return ()
    usual = {n: rival for n, rival in RIVALS.items() if has_graph or not rival.needs_graph}
    if isinstance(rivals, Mapping):
        for name, model in rivals.items():
            if not (hasattr(model, "fit") and hasattr(model, "predict")):
                raise InputError(
                    f"rivals must map names to scikit-learn classifiers, got {model!r} for "
                    f"{name!r}."
                )
        chosen: dict[str, Rival] = dict(usual)
        chosen |= {n: GivenClassifier(n, model, rows, classes) for n, model in rivals.items()}
        return tuple(chosen.values())
    if isinstance(rivals, str) and rivals == "auto":
        return tuple(usual.values())
    names = [rivals] if isinstance(rivals, str) else rivals
    return tuple(RIVALS[check_choice("rivals", name, RIVALS)] for name in names)
