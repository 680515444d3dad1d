"""Methods to compare with, by name: the systems of the paper's table, controls, defences."""

from glnn._validation import check_choice
from glnn.quality.plain import PLAIN_METHODS, Baseline, NodeProblem, Prediction
from glnn_lab.baselines.appnp import APPNP
from glnn_lab.baselines.chebnet import ChebNet
from glnn_lab.baselines.deepwalk import DeepWalk
from glnn_lab.baselines.dgi import DGI
from glnn_lab.baselines.gat import GAT
from glnn_lab.baselines.gcn import GCN
from glnn_lab.baselines.gcn_jaccard import GCNJaccard
from glnn_lab.baselines.gcn_svd import GCNSVD
from glnn_lab.baselines.gwnn import GWNN
from glnn_lab.baselines.label_propagation import LabelPropagation
from glnn_lab.baselines.longae import LoNGAE
from glnn_lab.baselines.mlp import MLP
from glnn_lab.baselines.monet import MoNet
from glnn_lab.baselines.planetoid import Planetoid
from glnn_lab.baselines.random_forest import RandomForest
from glnn_lab.baselines.sgc import SGC

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
_DEFENCES = (GCNJaccard(), GCNSVD())

BASELINES: dict[str, Baseline] = {
    method.name: method for method in (*_TABLE, *_CONTROLS, *_DEFENCES)
}


def get_baseline(name: str) -> Baseline:
    """Return a registered method; an unknown name is answered with the nearest known one.

    Examples
    --------
    >>> get_baseline("gcn").title
    'GCN'
    """
    return BASELINES[check_choice("method", name, BASELINES)]


__all__ = ["BASELINES", "Baseline", "NodeProblem", "Prediction", "get_baseline"]
