"""Planetoid-T of Yang et al.: embeddings that predict contexts, trained with the classifier."""

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from glnn.engine.inputs import make_generator
from glnn.engine.tasks import TrainingTask
from glnn.nn.features import Features, apply_dropout
from glnn.quality.rivals import NodeProblem, scale_features
from glnn_lab.baselines.base import INIT, NOISE, SAMPLES, Baseline, TrainSettings
from glnn_lab.baselines.networks import InputMap, draw_seed, isolate_rng
from glnn_lab.baselines.walks import LabelContexts, RandomWalks, skip_gram, walk_contexts


@dataclass(frozen=True, kw_only=True)
class PlanetoidSettings(TrainSettings):
    """Sizes as published: 50 dimensions, walks of 10 steps, windows of 3.

    Dropout, decay and the optimiser's settings are ours: the published program descends by
    plain gradient steps, contexts first and the classifier after them.
    """

    n_epochs: int = 600
    patience: int | None = 200
    weight_decay: float = 5e-4
    embedding_decay: float = 5e-2
    n_dimensions: int = 50
    n_walks: int = 500
    n_steps: int = 10
    window: int = 3
    n_label_pairs: int = 200
    n_negatives: int = 1
    context_weight: float = 1.0
    dropout: float = 0.5


class PlanetoidNetwork(nn.Module):
    r"""Classes from features and from an embedding of each node, then from both.

    .. math:: p = \mathrm{softmax}(X W_x + b_x), \quad q = \mathrm{softmax}(E W_e + b_e), \quad
              Z = [p \,|\, q]\, W + b
    """

    def __init__(self, n_nodes: int, n_in: int, n_out: int, n_dimensions: int) -> None:
        super().__init__()
        self.from_features = InputMap(n_in, n_out)
        self.bias = nn.Parameter(torch.zeros(n_out))
        self.embedding = nn.Parameter(torch.randn(n_nodes, n_dimensions) * 0.01)
        self.context = nn.Parameter(torch.randn(n_nodes, n_dimensions) * 0.1)
        self.from_embedding = nn.Linear(n_dimensions, n_out)
        self.joined = nn.Linear(2 * n_out, n_out)
        with torch.no_grad():  # at first both views count alike
            self.joined.weight.copy_(3 * torch.eye(n_out).repeat(1, 2))

    def forward(
        self, x: Features, drop: float, noise: torch.Generator
    ) -> list[Float[Tensor, "n c"]]:
        """Return the joint logits, those of the features and those of the embedding."""
        of_features = self.from_features(x.apply_dropout(drop, noise)) + self.bias
        of_embedding = self.from_embedding(apply_dropout(self.embedding.detach(), drop, noise))
        views = torch.cat([of_features.softmax(1), of_embedding.softmax(1)], 1)
        return [self.joined(views), of_features, of_embedding]


class PlanetoidTask(TrainingTask):
    r"""Cross-entropy of the three predictions, and skip-gram loss of sampled contexts.

    .. math:: -\mathbb{E}_{(i, c, \gamma)} \ln \sigma(\gamma\, e_i^\top w_c)

    over positives (:math:`\gamma = 1`: near on a walk, or of the same label) and negatives
    (:math:`\gamma = -1`: any node, or of another label).
    """

    module: PlanetoidNetwork

    def __init__(self, problem: NodeProblem, settings: PlanetoidSettings, seed: int) -> None:
        self.settings = settings
        self.features = Features.of(scale_features(problem.features))
        self.nodes = torch.from_numpy(problem.train)
        self.classes = torch.from_numpy(problem.labels[problem.train])
        self._walks = RandomWalks(problem.graph)
        self._same_label = LabelContexts(self.nodes, self.classes)
        self._samples, self._noise = make_generator(seed, SAMPLES), make_generator(seed, NOISE)
        n_nodes, n_in = self.features.shape
        with isolate_rng(draw_seed(make_generator(seed, INIT))):
            self.module = PlanetoidNetwork(n_nodes, n_in, problem.n_classes, settings.n_dimensions)

    def losses(self, epoch: int) -> dict[str, Float[Tensor, ""]]:
        """Return the losses of the labels and of newly drawn contexts."""
        logits = self.module(self.features, self.settings.dropout, self._noise)
        supervised = [functional.cross_entropy(z[self.nodes], self.classes) for z in logits]
        terms = {"cross_entropy": torch.stack(supervised).sum()}
        near, far = self._contexts()
        if len(near):
            terms["context"] = self.settings.context_weight * skip_gram(
                self.module.embedding, self.module.context, near, far
            )
        return terms

    def _contexts(self) -> tuple[Int[Tensor, "p 2"], Int[Tensor, "q 2"]]:
        """Draw positives and negatives; all pairs have the same weight."""
        s, rng = self.settings, self._samples
        near, far = self._same_label.draw(s.n_label_pairs, rng)
        along, anyone = walk_contexts(
            self._walks, (s.n_walks, s.n_steps, s.window), s.n_negatives, rng
        )
        return torch.cat([near, along]), torch.cat([far, anyone])

    def scores(self) -> Float[Tensor, "n c"]:
        """Return the joint logits of every node."""
        logits: Tensor = self.module(self.features, 0.0, self._noise)[0]
        return logits

    def parameter_groups(self) -> list[dict[str, Any]]:
        """Apply a separate weight decay to each view's map, and none to contexts."""
        decay = {
            "from_features": self.settings.weight_decay,
            "from_embedding": self.settings.embedding_decay,
        }
        return [
            {"params": [parameter], "weight_decay": decay.get(name.split(".")[0], 0.0)}
            for name, parameter in self.module.named_parameters()
        ]


@dataclass(frozen=True)
class Planetoid(Baseline):
    """Planetoid-T: transductive, contexts from walks and from labels."""

    name: ClassVar[str] = "planetoid"
    title: ClassVar[str] = "Planetoid"
    paper: ClassVar[str] = (
        "Yang, Cohen and Salakhutdinov, Revisiting semi-supervised learning with graph "
        "embeddings, ICML 2016"
    )
    settings: PlanetoidSettings = PlanetoidSettings()

    def task(self, problem: NodeProblem, seed: int) -> PlanetoidTask:
        """Build embeddings and classifier on features of length one."""
        return PlanetoidTask(problem, self.settings, seed)
