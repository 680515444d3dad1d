"""Learn a graph from data and labels, and classify its nodes."""

import gc
import os
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from glnn.data import NodeData as NodeData
    from glnn.data import load_dataset as load_dataset
    from glnn.estimator import GLNNClassifier as GLNNClassifier
    from glnn.evaluation import evaluate as evaluate
    from glnn.exceptions import GlnnError as GlnnError
    from glnn.objective import Weights as Weights
    from glnn.quality import Evaluation as Evaluation
    from glnn.quality import labelled_scorer as labelled_scorer
    from glnn.solver import Certificate as Certificate
    from glnn.solver import LearnedGraph as LearnedGraph
    from glnn.solver import learn_graph as learn_graph

# Threads that spin while they wait take the processor from other programs, and each other. OpenMP
# reads this when PyTorch is imported.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

try:
    __version__ = version("glnn")
except PackageNotFoundError:  # run from a source tree that was never installed
    __version__ = "0+source"

_HOMES = {
    "Certificate": "glnn.solver",
    "Evaluation": "glnn.quality",
    "GLNNClassifier": "glnn.estimator",
    "GlnnError": "glnn.exceptions",
    "LearnedGraph": "glnn.solver",
    "NodeData": "glnn.data",
    "Weights": "glnn.objective",
    "evaluate": "glnn.evaluation",
    "labelled_scorer": "glnn.quality",
    "learn_graph": "glnn.solver",
    "load_dataset": "glnn.data",
}

__all__ = sorted([*_HOMES, "__version__"])


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used, so that ``import glnn`` costs nothing."""
    if name not in _HOMES:
        raise AttributeError(f"module 'glnn' has no attribute {name!r}")
    was_enabled = gc.isenabled()
    gc.disable()  # imports take a quarter less time
    try:
        return getattr(import_module(_HOMES[name]), name)
    finally:
        if was_enabled:
            gc.enable()


def __dir__() -> list[str]:
    return list(__all__)
