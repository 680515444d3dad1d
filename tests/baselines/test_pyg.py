import sys

import pytest

from glnn.baselines.pyg import layers
from glnn.exceptions import MissingDependencyError


def test_the_layers_are_those_of_pytorch_geometric():
    assert hasattr(layers(), "GCNConv")


def test_a_missing_package_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch_geometric.nn", None)
    with pytest.raises(MissingDependencyError, match="pip install"):
        layers()
