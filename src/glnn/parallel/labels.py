"""Labels and validation nodes of which each process has those among its rows."""

import dataclasses
from dataclasses import dataclass, field

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from glnn.engine.classifier import Labels
from glnn.engine.history import Record
from glnn.engine.trainer import Validation
from glnn.peers import Partition


@dataclass(frozen=True)
class ValidationRows(Validation):
    """The validation nodes of this process, numbered from its first row.

    ``evaluate`` returns the same numbers in every process: those over all validation nodes.
    ``places`` are the places of this process's nodes among those of the ``whole``.
    """

    partition: Partition = field(kw_only=True)
    whole: Validation = field(kw_only=True)
    places: Tensor = field(kw_only=True)

    @classmethod
    def of(cls, whole: Validation, partition: Partition) -> "ValidationRows":
        """Keep the nodes whose rows are here."""
        places = torch.from_numpy(np.flatnonzero(partition.has(whole.nodes.numpy())))
        own = whole.nodes[places] - partition.start, whole.labels[places]
        return cls(*own, partition=partition, whole=whole, places=places)

    def to(self, device: torch.device) -> "ValidationRows":
        """Return the same nodes and labels on another device."""
        moved = self.nodes.to(device), self.labels.to(device)
        return dataclasses.replace(self, nodes=moved[0], labels=moved[1])

    def evaluate(self, scores: Float[Tensor, "n c"]) -> Record:
        """Return loss and accuracy over the validation nodes of all processes."""
        picked = scores.new_zeros(len(self.whole.nodes), scores.shape[1])
        picked[self.places] = scores[self.nodes]
        picked = self.partition.peers.all_reduce_(picked)  # each row is zero but in one process
        every = torch.arange(len(picked), device=picked.device)
        return Validation(every, self.whole.labels.to(picked.device)).evaluate(picked)


class LabelRows(Labels):
    """The training labels of this process, numbered from its first row.

    Parameters
    ----------
    whole
        The labels of all nodes.
    partition
        Which rows are here.
    """

    def __init__(self, whole: Labels, partition: Partition) -> None:
        nodes, classes = whole.nodes.numpy(), whole.classes.numpy()
        here = partition.has(nodes)
        super().__init__(
            nodes[here] - partition.start, classes[here], partition.n_rows, whole.n_classes
        )
        self._all_nodes, self._all_classes, self._partition = nodes, classes, partition

    def __len__(self) -> int:
        return len(self._all_nodes)

    @property
    def whole(self) -> Labels:
        """The labels of all nodes; only their numbers and classes are there."""
        every = Labels.__new__(Labels)
        every.nodes = torch.from_numpy(self._all_nodes)
        every.classes = torch.from_numpy(self._all_classes)
        every.n_nodes, every.n_classes = self._partition.n_nodes, self.n_classes
        return every

    def to(self, device: str | torch.device) -> "LabelRows":
        """Return the labels on another device."""
        other = LabelRows.__new__(LabelRows)
        other.__dict__.update(super().to(device).__dict__)
        return other
