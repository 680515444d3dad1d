"""Deep Graph Infomax of Veličković et al., with logistic regression on the embedding."""

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from glnn.engine.callbacks import Callback, Record
from glnn.engine.inputs import make_generator
from glnn.engine.tasks import TrainingTask
from glnn.engine.trainer import Trainer
from glnn.graph.pairs import SparseAdjacency
from glnn.graph.prior import renormalized
from glnn.nn.features import Features
from glnn.quality.rivals import NodeProblem, normalize_row_sums
from glnn_lab.baselines.base import INIT, NOISE, Baseline, TrainSettings
from glnn_lab.baselines.networks import InputMap, draw_seed, import_layers, isolate_rng
from glnn_lab.baselines.walks import embedding_logits


@dataclass(frozen=True, kw_only=True)
class DGISettings(TrainSettings):
    """Published for Cora and Citeseer; ``patience`` counts epochs of the infomax loss.

    ``inverse_penalty`` of the head: ``None`` lets :func:`~glnn_lab.baselines.logistic_regression.
    chosen_penalty` choose it among the labels that are visible.
    """

    n_epochs: int = 2000
    learning_rate: float = 0.001
    weight_decay: float = 0.0
    patience: int | None = 20
    n_hidden: int = 512
    inverse_penalty: float | None = None


class InfomaxEncoder(nn.Module):
    r"""One graph convolution, :math:`H = \mathrm{PReLU}(\hat A\,(X W) + b)`."""

    def __init__(self, adj_hat: SparseAdjacency, n_hidden: int) -> None:
        super().__init__()
        self.adj_hat = adj_hat
        self.bias = nn.Parameter(torch.zeros(n_hidden))
        self.slope = nn.Parameter(torch.tensor(0.25))  # of PReLU, where its input is negative

    def forward(self, mapped: Float[Tensor, "n h"]) -> Float[Tensor, "n h"]:
        """Return the embedding of the mapped features."""
        z = self.adj_hat @ mapped + self.bias
        hidden: Tensor = torch.lerp(torch.relu(z), z, self.slope)
        return hidden


class InfomaxTask(TrainingTask):
    r"""Discriminate between nodes of the graph and of a shuffled one by the graph's summary.

    .. math:: -\frac1N \sum_i \bigl[\ln \sigma(h_i^\top M s) + \ln(1 - \sigma(
              \tilde h_i^\top M s))\bigr], \quad s = \sigma\bigl(\tfrac1N \textstyle\sum_i h_i\bigr)

    :math:`\tilde h` embeds the same graph with the rows of the features permuted; permuting
    :math:`X W` is the same. Labels are used at the end alone, by :meth:`scores`.
    """

    def __init__(self, problem: NodeProblem, settings: DGISettings, seed: int) -> None:
        infomax = import_layers().DeepGraphInfomax
        self.features = Features.of(normalize_row_sums(problem.features))
        self.settings, self._problem = settings, problem
        self._noise = make_generator(seed, NOISE)
        graph = renormalized(problem.graph)
        adj_hat = SparseAdjacency.from_scipy(graph, dtype=torch.float32)
        n_hidden = settings.n_hidden
        with isolate_rng(draw_seed(make_generator(seed, INIT))):
            encoder = InfomaxEncoder(adj_hat, n_hidden)
            self._model = infomax(n_hidden, encoder, _summary, self._shuffle)
            self._map = InputMap(self.features.shape[1], n_hidden)
        self.module = nn.ModuleDict({"map": self._map, "infomax": self._model})

    def _shuffle(self, mapped: Float[Tensor, "n h"]) -> Float[Tensor, "n h"]:
        return mapped.index_select(0, torch.randperm(len(mapped), generator=self._noise))

    def losses(self, epoch: int) -> dict[str, Float[Tensor, ""]]:
        """Return the infomax loss."""
        return {"infomax": self._model.loss(*self._model(self._map(self.features)))}

    def embedding(self) -> Float[Tensor, "n h"]:
        """Return the embedding of every node."""
        hidden: Tensor = self._model.encoder(self._map(self.features))
        return hidden

    def scores(self) -> Float[Tensor, "n c"]:
        """Fit logistic regression on the labelled nodes' embedding; return log-probabilities."""
        z = self.embedding().detach().double().numpy()
        return embedding_logits(z, self._problem, self.settings.inverse_penalty)

    def parameter_groups(self) -> list[dict[str, Any]]:
        """Apply weight decay to all parameters."""
        decay = self.settings.weight_decay
        return [{"params": list(self.module.parameters()), "weight_decay": decay}]


def _summary(z: Float[Tensor, "n h"], *args: object) -> Float[Tensor, "h"]:
    return torch.sigmoid(z.mean(0))


class KeepLowest(Callback):
    """Restore the epoch with the lowest training loss; stop ``patience`` epochs after it."""

    def __init__(self, module: nn.Module, patience: int | None) -> None:
        self._module, self._patience = module, patience
        self._lowest, self._best = float("inf"), -1
        self._state: dict[str, Tensor] = {}

    def on_epoch_end(self, stage: str, record: Record) -> bool:
        """Compare the loss with the lowest so far."""
        if float(record["loss"]) < self._lowest:
            self._lowest, self._best = float(record["loss"]), int(record["epoch"])
            self._state = {k: v.clone() for k, v in self._module.state_dict().items()}
        return self._patience is not None and int(record["epoch"]) - self._best >= self._patience

    def on_stage_end(self, stage: str) -> None:
        """Restore the best parameters."""
        self._module.load_state_dict(self._state)


@dataclass(frozen=True)
class DGI(Baseline):
    """DGI as published: the embedding uses no labels, so the training loss stops it."""

    name: ClassVar[str] = "dgi"
    title: ClassVar[str] = "DGI"
    paper: ClassVar[str] = "Veličković et al., Deep graph infomax, ICLR 2019"
    settings: DGISettings = DGISettings()

    def task(self, problem: NodeProblem, seed: int) -> InfomaxTask:
        """Build encoder and discriminator on row-normalised features."""
        return InfomaxTask(problem, self.settings, seed)

    def train(self, task: TrainingTask, problem: NodeProblem) -> int:
        """Stop when the infomax loss has not fallen for ``patience`` epochs."""
        trainer = Trainer(
            n_epochs=self.settings.n_epochs,
            learning_rate=self.settings.learning_rate,
            callbacks=[KeepLowest(task.module, self.settings.patience)],
        )
        return len(trainer.fit(task, stage=self.name))
