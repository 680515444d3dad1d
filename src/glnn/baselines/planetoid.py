"""Planetoid-T of Yang et al.: embeddings that predict contexts, trained with the classifier."""

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from glnn.baselines.base import Baseline, Problem, TrainSettings
from glnn.baselines.inputs import InputMap, draw_seed, isolated_rng, row_normalized
from glnn.baselines.supervised import INIT, SAMPLES
from glnn.baselines.walks import LabelContexts, RandomWalks, windowed_pairs
from glnn.engine.seeding import generator_for
from glnn.engine.task import Task
from glnn.nn.features import Features


@dataclass(frozen=True, kw_only=True)
class PlanetoidSettings(TrainSettings):
    """Sizes as published: 50 dimensions, walks of 10 steps, windows of 3, 200 walks a batch."""

    n_epochs: int = 600
    n_dimensions: int = 50
    n_walks: int = 200
    n_steps: int = 10
    window: int = 3
    n_label_pairs: int = 200
    n_negatives: int = 5
    context_weight: float = 1.0
    scaling: str = "raw"
    label_weight: float = 1.0
    layer_weight: float = 1.0
    n_pretrain: int = 200
    update_embedding: bool = True


class PlanetoidNetwork(nn.Module):
    r"""Classes from features and from an embedding of each node, then from both.

    .. math:: p = \mathrm{softmax}(X W_x + b_x), \quad q = \mathrm{softmax}(E W_e + b_e), \quad
              Z = [p \,|\, q]\, W + b
    """

    def __init__(self, n_nodes: int, n_in: int, n_out: int, n_dimensions: int) -> None:
        super().__init__()
        self.from_features = InputMap(n_in, n_out)
        self.bias = nn.Parameter(torch.zeros(n_out))
        self.embedding = nn.Parameter(torch.randn(n_nodes, n_dimensions) * 0.1)
        self.context = nn.Parameter(torch.randn(n_nodes, n_dimensions) * 0.1)
        self.from_embedding = nn.Linear(n_dimensions, n_out)
        self.joined = nn.Linear(2 * n_out, n_out)

    def forward(self, x: Features) -> list[Float[Tensor, "n c"]]:
        """Return the logits of both views joined, of the features and of the embedding."""
        of_features = self.from_features(x) + self.bias
        of_embedding = self.from_embedding(
            self.embedding if self.update else self.embedding.detach()
        )
        views = torch.cat([of_features.softmax(1), of_embedding.softmax(1)], 1)
        return [self.joined(views), of_features, of_embedding]


class PlanetoidTask(Task):
    r"""Cross-entropy of the three predictions, and skip-gram loss of sampled contexts.

    .. math:: -\mathbb{E}_{(i, c, \gamma)} \ln \sigma(\gamma\, e_i^\top w_c)

    over positives (:math:`\gamma = 1`: near on a walk, or of the same label) and negatives
    (:math:`\gamma = -1`: any node, or of another label).
    """

    def __init__(self, problem: Problem, settings: PlanetoidSettings, seed: int) -> None:
        self.settings = settings
        self.features = Features.of(
            row_normalized(problem.features) if settings.scaling == "rows" else problem.features
        )
        self.nodes = torch.from_numpy(problem.train)
        self.classes = torch.from_numpy(problem.labels[problem.train])
        self._walks = RandomWalks(problem.graph)
        self._same_label = LabelContexts(self.nodes, self.classes)
        self._samples = generator_for(seed, SAMPLES)
        n_nodes, n_in = self.features.shape
        with isolated_rng(draw_seed(generator_for(seed, INIT))):
            self.module = PlanetoidNetwork(n_nodes, n_in, problem.n_classes, settings.n_dimensions)

    def losses(self, epoch: int) -> dict[str, Float[Tensor, ""]]:
        """Return the loss of the labels and of freshly drawn contexts."""
        self.module.update = self.settings.update_embedding
        logits = self.module(self.features)
        supervised = [functional.cross_entropy(z[self.nodes], self.classes) for z in logits]
        terms = {
            "cross_entropy": (
                self.settings.label_weight if epoch >= self.settings.n_pretrain else 0.0
            )
            * (supervised[0] + self.settings.layer_weight * (supervised[1] + supervised[2]))
        }
        weight = self.settings.context_weight
        near, far = self._walk_pairs()
        if len(near):
            terms["walk_context"] = weight * self._skip_gram(near, far)
        if self._same_label.n_seen > 1:
            same, other = self._same_label.draw(self.settings.n_label_pairs, self._samples)
            terms["label_context"] = weight * self._skip_gram(same, other)
        return terms

    def _walk_pairs(self) -> tuple[Int[Tensor, "p 2"], Int[Tensor, "q 2"]]:
        """Draw walks from nodes that have neighbours; the negatives' contexts are any nodes."""
        s, rng, pool = self.settings, self._samples, self._walks.connected
        if not len(pool):
            return torch.empty(0, 2, dtype=torch.int64), torch.empty(0, 2, dtype=torch.int64)
        start = pool[torch.randint(len(pool), (s.n_walks,), generator=rng)]
        near = windowed_pairs(self._walks.draw(start, s.n_steps, rng), s.window)
        centers = near[:, 0].repeat(s.n_negatives)
        anyone = torch.randint(self.features.shape[0], centers.shape, generator=rng)
        return near, torch.stack([centers, anyone], 1)

    def _skip_gram(self, near: Int[Tensor, "p 2"], far: Int[Tensor, "q 2"]) -> Float[Tensor, ""]:
        """Sum of the mean losses of positives and negatives."""
        losses = []
        for pairs, sign in ((near, 1.0), (far, -1.0)):
            if len(pairs):
                e = functional.embedding(pairs[:, 0], self.module.embedding)
                c = functional.embedding(pairs[:, 1], self.module.context)
                losses.append(-functional.logsigmoid(sign * (e * c).sum(1)).mean())
        return torch.stack(losses).sum()

    def scores(self) -> Float[Tensor, "n c"]:
        """Return the joined logits of every node."""
        self.module.update = True
        logits: Tensor = self.module(self.features)[0]
        return logits

    def parameter_groups(self) -> list[dict[str, Any]]:
        """Put weight decay on the map of the features."""
        own = list(self.module.from_features.parameters())
        rest = [p for n, p in self.module.named_parameters() if not n.startswith("from_features")]
        return [{"params": own, "weight_decay": self.settings.weight_decay}, {"params": rest}]


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

    def task(self, problem: Problem, seed: int) -> PlanetoidTask:
        """Make embeddings and classifier on row-normalised features."""
        return PlanetoidTask(problem, self.settings, seed)
