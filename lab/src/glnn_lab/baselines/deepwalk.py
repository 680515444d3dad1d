"""DeepWalk of Perozzi et al.: embeddings that predict walks, with logistic regression on them."""

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from glnn.engine.inputs import make_generator
from glnn.engine.tasks import TrainingTask
from glnn.quality.rivals import NodeProblem
from glnn_lab.baselines.base import INIT, SAMPLES, Baseline, TrainSettings
from glnn_lab.baselines.networks import draw_seed, isolate_rng
from glnn_lab.baselines.walks import RandomWalks, embedding_logits, skip_gram, walk_contexts


@dataclass(frozen=True, kw_only=True)
class DeepWalkSettings(TrainSettings):
    """64 dimensions and windows of 5; an epoch draws ``n_walks`` walks.

    Published: 80 walks of 40 steps from each node and hierarchical softmax in place of sampled
    negatives.
    """

    n_epochs: int = 200
    learning_rate: float = 0.02
    weight_decay: float = 0.0
    n_dimensions: int = 64
    n_walks: int = 200
    n_steps: int = 20
    window: int = 5
    n_negatives: int = 1
    inverse_penalty: float | None = None


class DeepWalkTask(TrainingTask):
    """Skip-gram loss of new walks in each epoch; labels are used only at the end."""

    module: nn.ParameterDict

    def __init__(self, problem: NodeProblem, settings: DeepWalkSettings, seed: int) -> None:
        self.settings, self._problem = settings, problem
        self._walks = RandomWalks(problem.graph)
        self._samples = make_generator(seed, SAMPLES)
        size = (problem.n_nodes, settings.n_dimensions)
        with isolate_rng(draw_seed(make_generator(seed, INIT))):
            views = {name: nn.Parameter(torch.randn(size) * 0.1) for name in ("node", "context")}
        self.module = nn.ParameterDict(views)

    def losses(self, epoch: int) -> dict[str, Float[Tensor, ""]]:
        """Return the loss of the contexts of this epoch's walks."""
        s = self.settings
        sizes = (s.n_walks, s.n_steps, s.window)
        near, far = walk_contexts(self._walks, sizes, s.n_negatives, self._samples)
        return {"context": skip_gram(self.module["node"], self.module["context"], near, far)}

    def scores(self) -> Float[Tensor, "n c"]:
        """Return the log-probabilities of logistic regression on the embedding."""
        z = self.module["node"].detach().double().numpy()
        return embedding_logits(z, self._problem, self.settings.inverse_penalty)

    def parameter_groups(self) -> list[dict[str, Any]]:
        """Apply weight decay to both embeddings."""
        decay = self.settings.weight_decay
        return [{"params": list(self.module.parameters()), "weight_decay": decay}]


@dataclass(frozen=True)
class DeepWalk(Baseline):
    """DeepWalk: features are not used, and isolated nodes have random embeddings."""

    name: ClassVar[str] = "deepwalk"
    title: ClassVar[str] = "DeepWalk"
    paper: ClassVar[str] = (
        "Perozzi, Al-Rfou and Skiena, DeepWalk: online learning of social representations, KDD 2014"
    )
    chooses_epoch: ClassVar[bool] = False
    settings: DeepWalkSettings = DeepWalkSettings()

    def task(self, problem: NodeProblem, seed: int) -> DeepWalkTask:
        """Build the embeddings of the nodes of the graph."""
        return DeepWalkTask(problem, self.settings, seed)
