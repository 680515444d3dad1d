"""The paper's method as printed: graph and network trained together by Adam, all entries free."""

from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from jaxtyping import Float
from torch import Tensor, nn

from glnn.engine.classifier import Labels, build_head
from glnn.engine.settings import GraphSettings, HeadSettings
from glnn.engine.task import Task
from glnn.graph.dense import DenseAdjacency
from glnn.graph.dense_rows import dense_rows
from glnn.nn.features import Features
from glnn.nn.literal import GraphLearningLayer
from glnn.nn.losses import cross_entropy
from glnn.objective import Objective


class LiteralTask(Task):
    r"""Paper: eq:overall_loss, :math:`L_{GCN} + L_{GL} + \alpha L_{gt}`, on a dense matrix.

    Holds n x n numbers with gradient and two moments: for small graphs, and for the record.
    """

    def __init__(
        self,
        features: Features,
        labels: Labels,
        settings: HeadSettings,
        objective: Objective,
        *,
        init: torch.Generator,
        noise: torch.Generator,
    ) -> None:
        layer = GraphLearningLayer(features.shape[0], generator=init)
        network = build_head(settings, features.shape[1], labels.n_classes, init)
        self.module: nn.Module = nn.ModuleDict({"graph": layer, "network": network})
        self.module.to(features.device)
        self.features, self.labels, self._noise = features, labels.to(features.device), noise
        self._objective, self._settings = objective, settings

    @staticmethod
    def objective(
        signal: Any, prior: sp.csr_matrix | None, graph: GraphSettings, device: str | torch.device
    ) -> Objective:
        """Return the paper's loss of a graph, on dense features and a dense prior graph."""
        x = torch.from_numpy(np.asarray(dense_rows(signal), dtype=np.float32)).to(device)
        given = None
        if prior is not None:
            matrix = torch.from_numpy(prior.toarray().astype(np.float32))
            given = DenseAdjacency(matrix.to(device))
        reading: Any = graph.reading  # which was checked
        return Objective.of(graph.weights, x, given, reading=reading)

    def adjacency(self) -> DenseAdjacency:
        """Return the graph as it stands."""
        graph: DenseAdjacency = self.module["graph"]()  # type: ignore[index]
        return graph

    def losses(self, epoch: int) -> dict[str, Float[Tensor, ""]]:
        """Return the cross-entropy and every weighted term of the graph learning loss."""
        adj = self.adjacency()
        logits = self.module["network"](adj, self.features, self._noise)  # type: ignore[index]
        terms = {
            "cross_entropy": cross_entropy(
                logits[None],
                self.labels.nodes,
                self.labels.classes,
                weights=self.labels.weights,
            )
        }
        return terms | self._objective.terms(adj)

    def scores(self) -> Float[Tensor, "n c"]:
        """Return the logits of every node without dropout."""
        logits: Tensor = self.module["network"](self.adjacency(), self.features)  # type: ignore[index]
        return logits

    def parameter_groups(self) -> list[dict[str, object]]:
        """Weight decay on the network's first layer alone."""
        named = list(self.module.named_parameters())
        first = [p for name, p in named if name.startswith("network.first")]
        rest = [p for name, p in named if not name.startswith("network.first")]
        return [{"params": first, "weight_decay": self._settings.weight_decay}, {"params": rest}]
