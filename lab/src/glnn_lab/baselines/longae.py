"""LoNGAE of Tran: an autoencoder of adjacency rows and features that also classifies."""

import dataclasses
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
import torch
from jaxtyping import Float, Int
from sklearn.preprocessing import maxabs_scale
from torch import Tensor, nn
from torch.nn import functional

from glnn.engine.inputs import make_generator
from glnn.engine.tasks import TrainingTask
from glnn.nn.features import Features, apply_dropout
from glnn.quality.rivals import NodeProblem
from glnn_lab.baselines.base import INIT, NOISE, SAMPLES, Baseline, TrainSettings
from glnn_lab.baselines.networks import draw_seed, isolate_rng


@dataclass(frozen=True, kw_only=True)
class LoNGAESettings(TrainSettings):
    """Published for Cora and Citeseer; an epoch is one batch of rows to reconstruct.

    Training has ``n_passes`` over the nodes, but at most ``n_epochs`` batches.
    """

    n_epochs: int = 5200
    n_passes: int = 100
    learning_rate: float = 0.001
    weight_decay: float = 0.0
    n_outer: int = 256
    n_inner: int = 128
    dropout: float = 0.8
    n_rows: int = 64
    class_weight: float = 1.0


class LoNGAENetwork(nn.Module):
    r"""Encoder and decoder with shared weights, and a classifier on the decoder.

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

    def decode(self, rows: Features, drop: float, noise: torch.Generator) -> Float[Tensor, "n h"]:
        """Return the decoder's hidden layer of the given rows."""
        encoded = torch.relu(rows @ self.outer + self.biases["encoded"])
        code = torch.relu(encoded @ self.inner + self.biases["code"])
        spread = apply_dropout(code, drop, noise) @ self.inner.T
        return torch.relu(spread + self.biases["decoded"])

    def rebuild(self, decoded: Float[Tensor, "n h"]) -> Float[Tensor, "n w"]:
        """Return the logits of the reconstructed rows."""
        logits: Tensor = decoded @ self.outer.T + self.biases["rebuilt"]
        return logits

    def classify(self, decoded: Float[Tensor, "n h"], x: Features) -> Float[Tensor, "n c"]:
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


class LoNGAETask(TrainingTask):
    """Reconstruct a batch of rows and classify the labelled nodes."""

    module: LoNGAENetwork

    def __init__(self, problem: NodeProblem, settings: LoNGAESettings, seed: int) -> None:
        self.settings = settings
        x = sp.csr_matrix(abs(maxabs_scale(problem.features)), dtype=np.float32)
        links = (problem.graph > 0).astype(np.float32) + sp.eye(problem.n_nodes, dtype=np.float32)
        self._matrix = sp.csr_matrix(sp.hstack([links, x]))
        self._words = x
        self.rows, self.features = Features.of(self._matrix), Features.of(x)
        self.known = torch.full((problem.n_nodes,), -1)
        self.known[problem.train] = torch.from_numpy(problem.labels[problem.train])
        self._queue = torch.empty(0, dtype=torch.int64)
        self._noise, self._samples = make_generator(seed, NOISE), make_generator(seed, SAMPLES)
        with isolate_rng(draw_seed(make_generator(seed, INIT))):
            self.module = LoNGAENetwork(
                self._matrix.shape[1], x.shape[1], problem.n_classes, settings
            )

    def losses(self, epoch: int) -> dict[str, Float[Tensor, ""]]:
        """Return the losses of the reconstruction and of the labelled nodes."""
        net, picked = self.module, self._batch()
        rows = self._matrix[picked.numpy()]
        decoded = net.decode(Features.of(rows), self.settings.dropout, self._noise)
        logits = net.classify(decoded, Features.of(self._words[picked.numpy()]))
        supervised = functional.cross_entropy(
            logits, self.known[picked], ignore_index=-1, reduction="sum"
        )
        return {
            "reconstruction": balanced_cross_entropy(
                net.rebuild(decoded), torch.from_numpy(rows.toarray())
            ),
            "cross_entropy": self.settings.class_weight * supervised / len(picked),
        }

    def _batch(self) -> Int[Tensor, "b"]:
        """Return the next nodes of a shuffled pass; start a new pass when it is used up."""
        n_rows = min(self.settings.n_rows, len(self.known))
        if len(self._queue) < n_rows:
            self._queue = torch.randperm(len(self.known), generator=self._samples)
        picked, self._queue = self._queue[:n_rows], self._queue[n_rows:]
        return picked

    def scores(self) -> Float[Tensor, "n c"]:
        """Return the class logits of every node, without dropout."""
        decoded = self.module.decode(self.rows, 0.0, self._noise)
        logits: Tensor = self.module.classify(decoded, self.features)
        return logits

    def parameter_groups(self) -> list[dict[str, Any]]:
        """Apply weight decay to all parameters."""
        decay = self.settings.weight_decay
        return [{"params": list(self.module.parameters()), "weight_decay": decay}]


@dataclass(frozen=True)
class LoNGAE(Baseline):
    """LoNGAE in its multitask form, on the whole graph; as published, the last epoch is used."""

    name: ClassVar[str] = "longae"
    title: ClassVar[str] = "LoNGAE"
    paper: ClassVar[str] = (
        "Tran, Learning to make predictions on graphs with autoencoders, DSAA 2018; "
        "Multi-task graph autoencoders, NeurIPS workshop 2018"
    )
    chooses_epoch: ClassVar[bool] = False
    settings: LoNGAESettings = LoNGAESettings()

    def task(self, problem: NodeProblem, seed: int) -> LoNGAETask:
        """Build the autoencoder of adjacency rows and scaled features."""
        return LoNGAETask(problem, self.settings, seed)

    def train(self, task: TrainingTask, problem: NodeProblem) -> int:
        """Train for the published number of passes, but at most ``n_epochs`` batches."""
        s = self.settings
        n_batches = s.n_passes * max(1, problem.n_nodes // s.n_rows)
        capped = dataclasses.replace(s, n_epochs=min(s.n_epochs, n_batches))
        return Baseline.train(dataclasses.replace(self, settings=capped), task, problem)
