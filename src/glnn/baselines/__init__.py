"""Methods to compare with, by name: the systems of the paper's table, then the controls."""

from glnn._validation import check_choice
from glnn.baselines.appnp import APPNP
from glnn.baselines.chebnet import ChebNet
from glnn.baselines.deepwalk import DeepWalk
from glnn.baselines.dgi import DGI
from glnn.baselines.gat import GAT
from glnn.baselines.gcn import GCN
from glnn.baselines.gwnn import GWNN
from glnn.baselines.label_propagation import LabelPropagation
from glnn.baselines.longae import LoNGAE
from glnn.baselines.mlp import MLP
from glnn.baselines.monet import MoNet
from glnn.baselines.planetoid import Planetoid
from glnn.baselines.random_forest import RandomForest
from glnn.baselines.sgc import SGC
from glnn.quality.plain import PLAIN_METHODS, Baseline, NodeProblem, Prediction

_TABLE = (Planetoid(), ChebNet(), MoNet(), LoNGAE(), GAT(), DGI(), GWNN(), GCN())
_CONTROLS = (
    PLAIN_METHODS["logistic_regression"],
    RandomForest(),
    MLP(),
    LabelPropagation(),
    PLAIN_METHODS["label_spreading"],
    DeepWalk(),
    SGC(),
    APPNP(),
    PLAIN_METHODS["knn_gcn"],
)

BASELINES: dict[str, Baseline] = {method.name: method for method in (*_TABLE, *_CONTROLS)}


def get_baseline(name: str) -> Baseline:
    """Return a registered method; an unknown name is answered with the nearest known one.

    Examples
    --------
    >>> get_baseline("gcn").title
    'GCN'
    """
    return BASELINES[check_choice("method", name, BASELINES)]


__all__ = ["BASELINES", "Baseline", "NodeProblem", "Prediction", "get_baseline"]
