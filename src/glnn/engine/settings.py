"""Everything a fit can be told, with the presets by name."""

import dataclasses
from dataclasses import dataclass, field
from typing import Any

from glnn._validation import check_choice, check_integer, check_number, did_you_mean
from glnn.exceptions import InputError
from glnn.graph.prior import PRIORS
from glnn.objective import READINGS, Weights

HEADS = ("gcn", "propagation")
SUPPORTS = ("all", "candidates")


@dataclass(frozen=True, kw_only=True)
class GraphSettings:
    """The graph step: which problem is solved, on which signals and pairs."""

    weights: Weights = field(default_factory=Weights)
    reading: str = "trace"
    signal: str = "l2"
    prior: str = "renormalized"
    support: str = "candidates"
    n_candidates: int = 20
    n_neighbors: int | None = None
    prediction_weight: float = 3.0
    task_weight: float = 0.0

    def __post_init__(self) -> None:
        check_choice("reading", self.reading, READINGS)
        check_choice("prior", self.prior, PRIORS)
        check_choice("support", self.support, SUPPORTS)
        check_integer("n_candidates", self.n_candidates, low=1)
        if self.n_neighbors is not None:
            check_integer("n_neighbors", self.n_neighbors, low=1)
        check_number("prediction_weight", self.prediction_weight, low=0)
        check_number("task_weight", self.task_weight, low=0)


@dataclass(frozen=True, kw_only=True)
class HeadSettings:
    """The classifier step: the network, its losses and its optimiser."""

    head: str = "gcn"
    n_hidden: int = 16
    dropout: float = 0.5
    drop_node: float = 0.0
    n_steps: int = 2
    n_views: int = 1
    consistency_weight: float = 0.0
    consistency_temperature: float = 0.5
    smoothness_weight: float = 0.0
    smoothness_temperature: float = 0.3
    gate: float = 2.0
    ramp_epochs: int = 100
    learning_rate: float = 0.01
    weight_decay: float = 5e-4
    n_epochs: int = 200

    def __post_init__(self) -> None:
        check_choice("head", self.head, HEADS)
        for name in ("n_hidden", "n_views", "ramp_epochs", "n_epochs"):
            check_integer(name, getattr(self, name), low=1)
        check_integer("n_steps", self.n_steps, low=0)
        for name in ("dropout", "drop_node"):
            check_number(name, getattr(self, name), low=0, high=0.99)
        for name in ("consistency_weight", "smoothness_weight", "gate", "weight_decay"):
            check_number(name, getattr(self, name), low=0)
        for name in ("consistency_temperature", "smoothness_temperature", "learning_rate"):
            check_number(name, getattr(self, name), low=0, open_low=True)
