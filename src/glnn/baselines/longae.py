"""LoNGAE of Tran: an autoencoder of adjacency rows and features that also classifies."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from glnn.baselines.base import Baseline, Problem, TrainSettings
from glnn.baselines.inputs import draw_seed, isolated_rng, max_abs_scaled
from glnn.baselines.supervised import INIT, NOISE, SAMPLES
from glnn.engine.seeding import generator_for
from glnn.engine.task import Task
from glnn.nn.dropout import dropped
from glnn.nn.features import Features


@dataclass(frozen=True, kw_only=True)
class LoNGAESettings(TrainSettings):
    """Published for Cora and Citeseer; an epoch is one batch of rows to rebuild."""

    n_epochs: int = 1000
    learning_rate: float = 0.001
    weight_decay: float = 1e-4
    patience: int | None = 300
    n_outer: int = 256
    n_inner: int = 128
    dropout: float = 0.5
    n_rows: int = 64
    class_weight: float = 0.05


class LoNGAENetwork(nn.Module):
    r"""Encoder and decoder that share their weights, and a classifier beside the decoder.

    .. math:: h = \mathrm{ReLU}(W_1 a + b_1), \quad z = \mathrm{ReLU}(W_2 h + b_2), \quad
              \hat h = \mathrm{ReLU}(W_2^\top z + c_2), \quad \hat a = W_1^\top \hat h + c_1

    with :math:`a` a row of :math:`[A + I \,|\, X]`; the classes are read off
    :math:`\hat h` and, linearly, off the features.
    """

    def __init__(self, n_in: int, n_features: int, n_out: int, settings: LoNGAESettings) -> None:
        super().__init__()
        outer, inner = settings.n_outer, settings.n_inner
        self.dropout = settings.dropout
        self.outer = nn.Parameter(nn.init.xavier_normal_(torch.empty(n_in, outer)))
        self.inner = nn.Parameter(nn.init.xavier_normal_(torch.empty(outer, inner)))
        sizes = {"encoded": outer, "code": inner, "decoded": outer, "rebuilt": n_in, "class": n_out}
        self.biases = nn.ParameterDict({k: torch.zeros(size) for k, size in sizes.items()})
        self.by_features = nn.Parameter(nn.init.xavier_normal_(torch.empty(n_features, n_out)))
        self.by_decoded = nn.Parameter(nn.init.xavier_normal_(torch.empty(outer, n_out)))

    def decoded(self, rows: Features, drop: float, noise: torch.Generator) -> Float[Tensor, "n h"]:
        """Return the decoder's hidden layer of the given rows."""
        encoded = torch.relu(rows @ self.outer + self.biases["encoded"])
        code = torch.relu(encoded @ self.inner + self.biases["code"])
        spread = dropped(code, drop, noise) @ self.inner.T
        return torch.relu(spread + self.biases["decoded"])

    def rebuilt(self, decoded: Float[Tensor, "n h"]) -> Float[Tensor, "n w"]:
        """Return the logits of the rebuilt rows."""
        logits: Tensor = decoded @ self.outer.T + self.biases["rebuilt"]
        return logits

    def classified(self, decoded: Float[Tensor, "n h"], x: Features) -> Float[Tensor, "n c"]:
        """Return the class logits of the given rows."""
        logits: Tensor = x @ self.by_features + decoded @ self.by_decoded + self.biases["class"]
        return logits


def balanced_cross_entropy(
    logits: Float[Tensor, "n w"], target: Float[Tensor, "n w"]
) -> Float[Tensor, ""]:
    r"""Mean of :math:`-\zeta\, t \ln \sigma(l) - (1 - t) \ln(1 - \sigma(l))`.

    :math:`\zeta = 1 - n_1 / n_0` from the numbers of ones and zeros in the target. All entries
    count: no link is held out.
    """
    zeta = 1 - (target == 1).sum() / (target == 0).sum().clamp_min(1)
    return functional.binary_cross_entropy_with_logits(logits, target, pos_weight=zeta.clamp_min(0))


class LoNGAETask(Task):
    """Rebuild a batch of rows, and classify the labelled nodes."""

    module: LoNGAENetwork

    def __init__(self, problem: Problem, settings: LoNGAESettings, seed: int) -> None:
        self.settings = settings
        x = sp.csr_matrix(abs(max_abs_scaled(problem.features)), dtype=np.float32)
        links = (problem.graph > 0).astype(np.float32) + sp.eye(problem.n_nodes, dtype=np.float32)
        self._matrix = sp.csr_matrix(sp.hstack([links, x]))
        self.rows, self.features = Features.of(self._matrix), Features.of(x)
        self.labelled = (Features.of(self._matrix[problem.train]), Features.of(x[problem.train]))
        self.classes = torch.from_numpy(problem.labels[problem.train])
        self._noise, self._samples = generator_for(seed, NOISE), generator_for(seed, SAMPLES)
        with isolated_rng(draw_seed(generator_for(seed, INIT))):
            self.module = LoNGAENetwork(
                self._matrix.shape[1], x.shape[1], problem.n_classes, settings
            )

    def losses(self, epoch: int) -> dict[str, Float[Tensor, ""]]:
        """Return the loss of the rebuilt rows and of the labelled nodes."""
        drop, net, batch = self.settings.dropout, self.module, self._batch()
        rebuilt = net.rebuilt(net.decoded(Features.of(batch), drop, self._noise))
        rows, x = self.labelled
        logits = net.classified(net.decoded(rows, drop, self._noise), x)
        supervised = functional.cross_entropy(logits, self.classes)
        return {
            "reconstruction": balanced_cross_entropy(rebuilt, torch.from_numpy(batch.toarray())),
            "cross_entropy": self.settings.class_weight * supervised,
        }

    def _batch(self) -> sp.csr_matrix:
        n_nodes = self._matrix.shape[0]
        picked = torch.randperm(n_nodes, generator=self._samples)[: self.settings.n_rows]
        return self._matrix[picked.numpy()]

    def scores(self) -> Float[Tensor, "n c"]:
        """Return the class logits of every node, without dropout."""
        decoded = self.module.decoded(self.rows, 0.0, self._noise)
        logits: Tensor = self.module.classified(decoded, self.features)
        return logits

    def parameter_groups(self) -> list[dict[str, Any]]:
        """Put weight decay on all parameters."""
        decay = self.settings.weight_decay
        return [{"params": list(self.module.parameters()), "weight_decay": decay}]


@dataclass(frozen=True)
class LoNGAE(Baseline):
    """LoNGAE in its multitask form, on the whole graph."""

    name: ClassVar[str] = "longae"
    title: ClassVar[str] = "LoNGAE"
    paper: ClassVar[str] = (
        "Tran, Learning to make predictions on graphs with autoencoders, DSAA 2018; "
        "Multi-task graph autoencoders, NeurIPS workshop 2018"
    )
    settings: LoNGAESettings = LoNGAESettings()

    def task(self, problem: Problem, seed: int) -> LoNGAETask:
        """Make the autoencoder of adjacency rows and scaled features."""
        return LoNGAETask(problem, self.settings, seed)
