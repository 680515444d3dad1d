"""Methods that a fit is compared with, on the same labels.

Largest class, logistic regression, label spreading and boosted trees of scikit-learn; with a graph
also a GCN on it, and the two classifiers on rows joined with the means of their neighbours.
"""

import dataclasses
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn import config_context
from sklearn.base import clone
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.feature_selection import SelectKBest
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, PredefinedSplit
from sklearn.neighbors import kneighbors_graph
from sklearn.preprocessing import normalize, scale
from sklearn.semi_supervised import LabelSpreading
from sklearn.utils import _safe_indexing

from glnn._utils import check_choice
from glnn.engine.inputs import Scaling, make_generator
from glnn.engine.settings import HeadSettings
from glnn.engine.steps import predict_probabilities
from glnn.engine.tasks import ClassifierTask, Labels
from glnn.engine.trainer import Trainer
from glnn.exceptions import InputError
from glnn.graph.convert import as_adjacency
from glnn.graph.operators import count_nonzero
from glnn.graph.rows import to_dense_array
from glnn.nn.features import Features


@dataclass(frozen=True, eq=False)
class NodeProblem:
    """A node classification problem with the labels that a method may use.

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
        train, validation = np.array(self.train), np.array(self.validation)  # copies can be written
        seen = np.concatenate([train, validation])
        labels = np.full(len(self.labels), -1, dtype=np.int64)
        labels[seen] = self.labels[seen]
        graph = None if self.graph is None else as_adjacency(self.graph, len(labels))
        n_classes = self.n_classes or int(labels.max()) + 1
        vars(self).update(graph=graph, labels=labels, train=train)  # frozen for all others
        vars(self).update(validation=validation, n_classes=n_classes)

    @property
    def n_nodes(self) -> int:
        """Number of nodes."""
        return int(self.features.shape[0])

    @property
    def train_classes(self) -> np.ndarray:
        """The class of each training node, in their order."""
        return np.asarray(self.labels[self.train])

    @property
    def train_labels(self) -> np.ndarray:
        """The class of each training node, -1 for all other nodes."""
        return np.where(np.isin(np.arange(self.n_nodes), self.train), self.labels, -1)


# Features


def comparable_features(features: Any) -> Any:
    """Return the features for methods to compare with, scaled by glnn's own rule.

    Columns of different units get mean 0 and variance 1; otherwise the column with the largest
    unit would dominate. Bags of words and pixels are unchanged: each method scales them itself.
    """
    scaling = Scaling.fit(features)
    return scaling.apply(features) if scaling.kind == "columns" else features


def choose_storage(features: Any) -> Any:
    """Return features as CSR if at most a third of them are not zero, and dense otherwise.

    Methods treat the two differently, and must not depend on how the features were given.
    """
    is_sparse = 3 * count_nonzero(features).sum() <= features.shape[0] * features.shape[1]
    return sp.csr_matrix(features) if is_sparse else to_dense_array(features)


def normalize_row_sums(features: Any) -> Any:
    r"""Return :math:`X_{id} / \sum_e X_{ie}`, the bag-of-words scaling of Kipf and Welling.

    Rows of zeros stay zero. If any feature is negative, columns are standardised instead.
    """
    if features.min() < 0:
        return standardize_columns(features)
    return normalize(features, norm="l1")


def standardize_columns(features: Any) -> Any:
    """Return columns of mean 0 and variance 1; sparse columns are scaled but not shifted."""
    return scale(features.astype(np.float64), with_mean=not sp.issparse(features))


def scale_features(features: Any) -> Any:
    """Return dense features standardised, and sparse ones with rows of length one."""
    return normalize(features) if sp.issparse(features) else standardize_columns(features)


def join_neighbor_means(problem: NodeProblem) -> NodeProblem:
    r"""Return the problem with features :math:`[X, P X, P^2 X]`, :math:`P = D^{-1} A`.

    A node without neighbours has zeros in place of means.
    """
    x, walk = problem.features, normalize(problem.graph, norm="l1")
    near = walk @ x
    blocks = [x, near, walk @ near]
    joined = sp.hstack(blocks, format="csr") if sp.issparse(x) else np.hstack(blocks)
    return dataclasses.replace(problem, features=joined)


def expand_classes(probabilities: np.ndarray, classes: np.ndarray, n_classes: int) -> np.ndarray:
    """Expand the columns of the seen classes to all ``n_classes``; the others are 0."""
    spread = np.zeros((len(probabilities), n_classes))
    spread[:, classes.astype(np.int64)] = probabilities
    return spread


# Methods: each takes a problem and a seed, and returns the class probabilities of all nodes

Method = Callable[[NodeProblem, int], np.ndarray]

PENALTIES = (0.1, 1.0, 10.0, 100.0, 1000.0)  # inverse penalties of logistic regression
MAX_COLUMNS = 200  # of a wider table, boosted trees use the columns that differ most


def _fit_rows(model: Any, x: Any, problem: NodeProblem) -> np.ndarray:
    """Fit to the rows of the training nodes, and return the probabilities of all rows.

    Features and parameters are known to be valid, so scikit-learn need not check them. Where all
    training nodes are of one class, which most classifiers refuse, every node gets it.
    """
    if np.unique(problem.train_classes).size == 1:
        model = DummyClassifier()
    with config_context(assume_finite=True, skip_parameter_validation=True):
        model.fit(x[problem.train], problem.train_classes)
        found = model.predict_proba(x)
    return expand_classes(found, model.classes_, problem.n_classes)


def majority(problem: NodeProblem, seed: int) -> np.ndarray:
    """Return the class shares of the training labels, for every node."""
    return _fit_rows(DummyClassifier(), np.zeros((problem.n_nodes, 1)), problem)


def logistic_regression(problem: NodeProblem, seed: int) -> np.ndarray:
    """Fit logistic regression; its penalty is chosen by cross-validation over the labels.

    With a single label of some class the default penalty is used.
    """
    classes = problem.train_classes
    counts = np.unique(classes, return_counts=True)[1]
    model: Any = LogisticRegression(max_iter=2000)
    if counts.min() > 1:
        fold = np.argsort(np.argsort(classes, kind="stable")) % min(3, counts.min())
        folds = PredefinedSplit(fold)
        model = GridSearchCV(model, {"C": PENALTIES}, scoring="neg_log_loss", cv=folds)
    return _fit_rows(model, scale_features(problem.features), problem)


def label_spreading(problem: NodeProblem, seed: int) -> np.ndarray:
    """Spread labels over the given graph, or without one over nearest neighbours."""
    return spread_labels(LabelSpreading(kernel=make_kernel(problem), max_iter=100), problem)


def make_kernel(problem: NodeProblem, n_neighbors: int = 7) -> Any:
    """Return the given graph with loops as a kernel of scikit-learn, or nearest neighbours.

    Rows of zeros are nearer to rows of length one than most of these are to each other, so they
    would become neighbours of all; they get no neighbour but themselves.
    """
    if problem.graph is not None:
        looped = sp.csr_matrix(problem.graph + sp.eye(problem.n_nodes))
        return lambda *_: looped.copy()
    features = scale_features(problem.features)
    is_filled = np.asarray(abs(features).sum(1)).ravel() > 0
    if is_filled.all() or not is_filled.any():
        return "knn"
    near = kneighbors_graph(features[is_filled], n_neighbors, include_self=True)
    place = sp.eye(problem.n_nodes, format="csr")[is_filled]
    graph = sp.csr_matrix(place.T @ near @ place + sp.diags(1.0 - is_filled))
    return lambda *_: graph.copy()


def spread_labels(model: Any, problem: NodeProblem) -> np.ndarray:
    """Fit a model of ``sklearn.semi_supervised``; nodes without a path to a label get the shares.

    These are the shares of the classes among the training labels.
    """
    with warnings.catch_warnings():  # max_iter is meant to end it
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(scale_features(problem.features), problem.train_labels)
    found = expand_classes(model.label_distributions_, model.classes_, problem.n_classes)
    unreached = ~(found.sum(1) > 0)
    found[unreached] = majority(problem, 0)[unreached]
    return np.asarray(found / found.sum(1, keepdims=True))


def boosted_trees(problem: NodeProblem, seed: int) -> np.ndarray:
    """Fit scikit-learn's boosted trees with their defaults, on dense columns."""
    x, train = problem.features, problem.train
    if x.shape[1] > MAX_COLUMNS:
        with warnings.catch_warnings(), np.errstate(invalid="ignore", divide="ignore"):
            warnings.simplefilter("ignore", UserWarning)  # constant columns have no F value
            x = SelectKBest(k=MAX_COLUMNS).fit(x[train], problem.train_classes).transform(x)
    x = x.toarray() if sp.issparse(x) else x
    # scikit-learn's leaves of at least 20 rows leave no split at all below 40 labels
    smallest = min(20, max(1, len(train) // 3))
    trees = HistGradientBoostingClassifier(min_samples_leaf=smallest, random_state=seed)
    return _fit_rows(trees, x, problem)


def gcn(problem: NodeProblem, seed: int) -> np.ndarray:
    """Train the two-layer GCN of Kipf and Welling on the given graph, with their settings."""
    task = gcn_task(problem, problem.graph, seed, HeadSettings())
    Trainer(n_epochs=200, learning_rate=0.01).fit(task, stage="gcn")
    return predict_probabilities(task)


def gcn_task(
    problem: NodeProblem, graph: sp.csr_matrix, seed: int, settings: HeadSettings
) -> ClassifierTask:
    """Return the untrained two-layer GCN on a graph without loops, which are added."""
    return ClassifierTask(
        sp.csr_matrix(graph + sp.eye(problem.n_nodes)),
        Features.of(normalize_row_sums(problem.features)),
        Labels(problem.train, problem.train_classes, problem.n_nodes, problem.n_classes),
        settings,
        init=make_generator(seed, 0),
        noise=make_generator(seed, 1),
    )


def fit_given(
    model: Any, rows: Any, classes: Any, problem: NodeProblem, seed: int = 0
) -> np.ndarray:
    """Fit a copy of the user's classifier to the labelled rows of the table as it was given.

    ``rows`` is ``None`` for the features of the problem; ``classes`` are the sorted labels. A
    classifier without probabilities gives its class the probability one.
    """
    x = (problem.features if rows is None else rows).copy()  # it may be changed in place
    labels = classes[problem.train_classes]
    model = clone(model).fit(_safe_indexing(x, problem.train), labels)
    if hasattr(model, "predict_proba"):
        found, seen = np.asarray(model.predict_proba(x)), np.asarray(model.classes_)
    else:
        seen = np.unique(labels)
        found = np.asarray(model.predict(x))[:, None] == seen
    if not np.isfinite(found).all():
        raise InputError("its probabilities are not finite")
    return expand_classes(found, np.searchsorted(classes, seen), problem.n_classes)


# Choice of rivals


@dataclass(frozen=True, eq=False)
class Rival:
    """A method that a fit is compared with."""

    name: str  # in code
    title: str  # the name to show
    predict: Method
    needs_graph: bool = False
    n_blocks: int = 0  # columns in MAX_COLUMNS for each column of the table; 0: all are used

    def fit_predict(self, problem: NodeProblem, seed: int) -> np.ndarray:
        """Return the class probabilities of all nodes."""
        if self.needs_graph and problem.graph is None:
            raise InputError("it needs a graph, and none is given. Give one, or leave it out.")
        return self.predict(problem, seed)

    def describe_limits(self, problem: NodeProblem) -> str:
        """Return a note if only a part of the columns is used, otherwise an empty text."""
        n_columns = self.n_blocks * problem.features.shape[1]
        if n_columns <= MAX_COLUMNS:
            return ""
        return (
            f"{self.title}: only the {MAX_COLUMNS} of {n_columns:,} columns that differ most "
            "between the classes are used"
        )


def with_neighbors(rival: Rival) -> Rival:
    """Return a rival on rows joined with the means of their neighbours at one and two hops."""
    return Rival(
        f"{rival.name}_neighbors",
        f"{rival.title} with neighbours",
        lambda problem, seed: rival.predict(join_neighbor_means(problem), seed),
        needs_graph=True,
        n_blocks=3 * rival.n_blocks,
    )


_REGRESSION = Rival("logistic_regression", "logistic regression", logistic_regression)
_TREES = Rival("boosted_trees", "boosted trees", boosted_trees, n_blocks=1)

# In the order in which they are shown; those that need a graph are left out without one.
_RIVALS = (
    Rival("majority", "largest class", majority),
    _REGRESSION,
    Rival("label_spreading", "label spreading", label_spreading),
    _TREES,
    Rival("gcn", "GCN", gcn, needs_graph=True),
    with_neighbors(_REGRESSION),
    with_neighbors(_TREES),
)
RIVALS = {rival.name: rival for rival in _RIVALS}

RivalChoice = str | Sequence[str] | Mapping[str, Any] | None


def choose_rivals(
    rivals: RivalChoice, *, has_graph: bool, rows: Any = None, classes: Any = None
) -> tuple[Rival, ...]:
    """Return the rivals that a user asks for; see :func:`glnn.evaluate`.

    ``rows`` is the table for the user's own classifiers, and ``classes`` the sorted labels.
    """
    if rivals is None:
        return ()
    if not isinstance(rivals, Mapping) and rivals != "auto":
        names = [rivals] if isinstance(rivals, str) else rivals
        return tuple(RIVALS[check_choice("rivals", name, RIVALS)] for name in names)
    chosen = {n: rival for n, rival in RIVALS.items() if has_graph or not rival.needs_graph}
    own = rivals if isinstance(rivals, Mapping) else {}
    for name, model in own.items():
        if not (hasattr(model, "fit") and hasattr(model, "predict")):
            raise InputError(
                f"rivals must map names to scikit-learn classifiers, got {model!r} for {name!r}."
            )
        chosen[name] = Rival(name, name, partial(fit_given, model, rows, classes))
    return tuple(chosen.values())
