"""The classifier step over several processes: each has rows, all have the network."""

from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from jaxtyping import Float
from torch import Tensor

from glnn.engine.classifier import ClassifierTask, build_head
from glnn.engine.settings import HeadSettings
from glnn.graph.prior import inverse_root
from glnn.nn.dropout import PartGenerator
from glnn.nn.features import Features
from glnn.nn.losses import natural_gate
from glnn.nn.propagation import PropagationNet
from glnn.parallel.exact import ExactParameters
from glnn.parallel.features import FeatureRows
from glnn.parallel.graph_rows import GraphRows
from glnn.parallel.labels import LabelRows
from glnn.parallel.sums import Sums
from glnn.parallel.view_sums import RowViewSums
from glnn.peers import Partition, Peers


class RowsTask(ClassifierTask):
    """The losses of :class:`ClassifierTask` as sums over processes.

    Each term is a mean over all nodes, to which each process adds its nodes. Parameters are the
    same everywhere; their gradients have the bits of a single process (see
    :class:`glnn.parallel.sums.Sums`), so every process takes the same step.

    Parameters
    ----------
    partition, block
        Which rows are here, and these rows of the graph (CSR, rows x N).
    features, labels
        Of these rows.
    settings
        The network and the weights of its losses.
    init
        Generator of the first parameters: the same everywhere.
    noise
        Generator of the single process's dropout, of which each process takes its rows.
    """

    is_recordable = False  # processes wait for each other inside an epoch

    def __init__(
        self,
        partition: Partition,
        block: sp.csr_matrix,
        features: FeatureRows,
        labels: LabelRows,
        settings: HeadSettings,
        *,
        init: torch.Generator,
        noise: torch.Generator,
    ) -> None:
        device, peers = features.device, partition.peers
        self.features, self.settings = features, settings
        self.labels = labels.to(device)
        self.adjacency: Any = GraphRows(partition, block, device=device)
        self.adj_hat: Any = GraphRows(partition, normalized_rows(partition, block), device=device)
        degree = self.adjacency.row_sums()
        self._inverse_degree = torch.where(degree > 0, 1 / degree.clamp_min(1e-12), 0.0)
        self._noise = noise_of_rows(partition, features, noise)
        self._peers = peers
        self.n_nodes = partition.n_nodes
        self.gate = natural_gate(labels.n_classes) if settings.gate is None else settings.gate
        sums = Sums(partition)
        self._exactly = ExactParameters(sums)
        network = build_head(settings, features.shape[1], labels.n_classes, init)
        if isinstance(network, PropagationNet):
            network.sums = RowViewSums(sums)
        self.module = network.to(device)

    def losses(self, epoch: int) -> dict[str, Float[Tensor, ""]]:
        """Return the terms over all nodes; gradients reach the rows that are here."""
        with self._exactly:
            own = super().losses(epoch)
        shares = torch.stack(list(own.values()))
        totals = _Total.apply(shares, self._peers)  # type: ignore[no-untyped-call]
        return dict(zip(own, totals.unbind()))


class _Total(torch.autograd.Function):
    """A sum over processes, seen from one of its parts: the gradient passes unchanged."""

    @staticmethod
    def forward(ctx: Any, part: Tensor, peers: Peers) -> Tensor:
        return peers.all_reduce_(part.clone())

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        return grads[0], None


def normalized_rows(partition: Partition, block: sp.csr_matrix) -> sp.csr_matrix:
    r"""Return the rows that are here of :math:`D^{-1/2} A D^{-1/2}`."""
    own = np.asarray(block.sum(1), dtype=np.float64).ravel()
    left, right = inverse_root(own), inverse_root(partition.everyone(own))
    result = sp.csr_matrix(sp.diags(left) @ block.astype(np.float64) @ sp.diags(right))
    result.sort_indices()
    return result


def noise_of_rows(
    partition: Partition, features: Features, noise: torch.Generator
) -> PartGenerator:
    """Return the noise that a single process would draw for the rows that are here."""
    peers, n_stored = partition.peers, features.values.numel()
    counts = partition.counts(n_stored)
    first = int(counts[: peers.rank].sum())
    return PartGenerator(
        noise,
        rows=(partition.start, partition.stop),
        n_rows=partition.n_nodes,
        stored=(first, first + n_stored, int(counts.sum())),
    )
