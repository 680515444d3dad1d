"""Baselines by name: the methods of the paper's table, simple controls, and defences."""

from glnn._utils import check_choice
from glnn.quality.rivals import NodeProblem
from glnn_lab.baselines.appnp import APPNP
from glnn_lab.baselines.base import Baseline, Prediction
from glnn_lab.baselines.chebnet import ChebNet
from glnn_lab.baselines.deepwalk import DeepWalk
from glnn_lab.baselines.defences import GCNSVD, GCNJaccard
from glnn_lab.baselines.dgi import DGI
from glnn_lab.baselines.gat import GAT
from glnn_lab.baselines.gcn import MLP, SGC, GCNBaseline, KnnGCN
from glnn_lab.baselines.gwnn import GWNN
from glnn_lab.baselines.longae import LoNGAE
from glnn_lab.baselines.monet import MoNet
from glnn_lab.baselines.planetoid import Planetoid
from glnn_lab.baselines.scikit import (
    LabelPropagation,
    LabelSpreading,
    LogisticRegression,
    RandomForest,
)

_TABLE = (Planetoid(), ChebNet(), MoNet(), LoNGAE(), GAT(), DGI(), GWNN(), GCNBaseline())
_CONTROLS = (
    LogisticRegression(),
    RandomForest(),
    MLP(),
    LabelPropagation(),
    LabelSpreading(),
    DeepWalk(),
    SGC(),
    APPNP(),
    KnnGCN(),
)
_DEFENCES = (GCNJaccard(), GCNSVD())

BASELINES: dict[str, Baseline] = {
    method.name: method for method in (*_TABLE, *_CONTROLS, *_DEFENCES)
}


def get_baseline(name: str) -> Baseline:
    """Return a baseline by name; the error for an unknown name suggests the nearest one.

    Examples
    --------
    >>> get_baseline("gcn").title
    'GCN'
    """
    return BASELINES[check_choice("method", name, BASELINES)]


__all__ = ["BASELINES", "Baseline", "NodeProblem", "Prediction", "get_baseline"]
