"""Methods to compare with, by name: the systems of the paper's table, controls, defences."""

from glnn._utils import check_choice
from glnn.quality.rivals import PLAIN_METHODS, Baseline, NodeProblem, Prediction
from glnn_lab.baselines.appnp import APPNP
from glnn_lab.baselines.chebnet import ChebNet
from glnn_lab.baselines.deepwalk import DeepWalk
from glnn_lab.baselines.defences import GCNSVD, GCNJaccard
from glnn_lab.baselines.dgi import DGI
from glnn_lab.baselines.gat import GAT
from glnn_lab.baselines.gcn import GCN, MLP, SGC
from glnn_lab.baselines.gwnn import GWNN
from glnn_lab.baselines.longae import LoNGAE
from glnn_lab.baselines.monet import MoNet
from glnn_lab.baselines.planetoid import Planetoid
from glnn_lab.baselines.scikit import LabelPropagation, RandomForest

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
