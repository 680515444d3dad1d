"""Epochs of the paper's network with few, fused kernels: a dozen an epoch instead of ninety."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from glnn.engine.classifier import ClassifierTask
from glnn.engine.epochs import Epochs, Schedule
from glnn.engine.task import RampedTask
from glnn.graph.csr import CsrPattern
from glnn.graph.row_kernel import is_kernel_ready, power_of_2, row_product, tile_of
from glnn.nn import gcn_kernels, step_kernels
from glnn.nn.dropout import n_dropped_bytes, rescaling
from glnn.nn.gcn import GCN

WIDEST = 128
"""Hidden units or classes beyond which a row does not fit a program."""

_N_PARTS, _ROWS, _WIDTH, _LABELS = 64, 64, 32, 256


def fused_epochs(
    task: RampedTask, schedule: Schedule, validation: tuple[Tensor, Tensor] | None
) -> Epochs | None:
    """Return fused epochs of a task that has them, ``None`` for all others.

    ``validation`` are the nodes that judge and their classes. A task must have the paper's
    network, sparse features and no loss but the cross-entropy; its labelled nodes are distinct.
    """
    if type(task) is not ClassifierTask or type(task.module) is not GCN or not len(task.labels):
        return None
    s, x = task.settings, task.features
    is_plain = s.n_views == 1 and s.consistency_weight == 0 and s.smoothness_weight == 0
    fits = max(s.n_hidden, task.labels.n_classes) <= WIDEST
    if not (is_plain and fits and x.is_sparse and is_kernel_ready(x.values)):
        return None
    return FusedEpochs(task, schedule, validation)


@dataclass(frozen=True)
class _Rows:
    """A sparse matrix as kernels take it."""

    pattern: CsrPattern
    values: Tensor

    @property
    def arrays(self) -> tuple[Tensor, Tensor, Tensor]:
        return self.pattern.offsets, self.pattern.columns, self.values

    @property
    def tile(self) -> dict[str, int]:
        entries, n_warps = tile_of(self.pattern.longest, self.pattern.shape[0])
        return {"ENTRIES": entries, "num_warps": n_warps}


class FusedEpochs(Epochs):
    """Epochs of a :class:`~glnn.nn.gcn.GCN` trained on cross-entropy alone, in one vector.

    The task's own parameters are read at the beginning and written at the end.
    """

    def __init__(
        self,
        task: ClassifierTask,
        schedule: Schedule,
        validation: tuple[Tensor, Tensor] | None,
    ) -> None:
        self._task, x, device = task, task.features, task.features.device
        self.device, self.n_epochs = device, len(schedule.deadlines)
        self.judges, self._validation = validation is not None, validation
        self.names = ["loss", "cross_entropy"]
        matrix = task.adj_hat.matrix()
        self._adj, self._x = _Rows(matrix.pattern, matrix.entries), _Rows(x.pattern, x.values)
        self._xt = _Rows(x.transposed, x.values)
        self._parameters = [
            getattr(getattr(task.module, layer), name)
            for layer in ("first", "second")
            for name in ("weight", "bias")
        ]
        self._theta = torch.cat([p.detach().reshape(-1) for p in self._parameters])
        self._kept, self._moments = self._theta.clone(), torch.zeros_like(self._theta).repeat(2)
        n, n_labels = task.n_nodes, len(task.labels)
        h, c = self._parameters[2].shape
        self._sizes = {"n_features": x.shape[1], "n_hidden": h, "n_classes": c}
        self._widths = {"HIDDEN": max(16, power_of_2(h)), "CLASSES": max(16, power_of_2(c))}
        rate = task.settings.dropout
        self._dropout = {"n_dropped": n_dropped_bytes(rate), "scale": rescaling(rate)}
        self._noise_state = task.generators()[0].get_state()
        self._noise = torch.empty(1, dtype=torch.int64, device=device)
        self._noise.random_(generator=task.generators()[0])
        self._epoch, self._step = (torch.zeros_like(self._noise) for _ in range(2))
        self._table = _table(schedule).to(device)
        self.losses, self.measured = (
            torch.full((self.n_epochs, 2), torch.nan, device=device) for _ in range(2)
        )
        self._best = torch.tensor([torch.inf, torch.inf, 0.0], device=device)
        self._first, self._hidden, self._d_first, self._d_spread = (
            torch.empty(n, h, device=device) for _ in range(4)
        )
        self._second, self._d_second = (torch.empty(n, c, device=device) for _ in range(2))
        self._d_outputs = torch.zeros(n, c, device=device)  # but for the labelled rows it stays so
        self._label_losses = torch.empty(n_labels, device=device)
        self._parts = torch.zeros(_N_PARTS, h * (c + 1), device=device)
        self._judged: tuple[Tensor, ...] = ()
        if validation is not None:
            numbers = torch.empty(2, len(validation[0]), device=device)
            self._judged = (torch.empty(n, h, device=device), torch.empty(n, c, device=device))
            self._judged += tuple(numbers)

    def generators(self) -> list[torch.Generator]:
        """None: noise comes from a seed and the number of the epoch."""
        return []

    def train(self) -> None:  # noqa: D102
        labels, n = self._task.labels, self._task.n_nodes
        self._forward(self._first, self._second, trains=True)
        self._outputs(
            labels.nodes, labels.classes, self._second, self._label_losses, self._d_outputs, True
        )
        gcn_kernels.hidden_gradient[(n,)](
            *self._adj.arrays,
            self._d_outputs,
            self._theta,
            self._hidden,
            self._d_second,
            self._d_first,
            self._dropout["scale"],
            **self._sizes,
            **self._widths,
            **self._adj.tile,
        )
        gcn_kernels.gradient_parts[(_N_PARTS,)](
            self._hidden,
            self._d_second,
            self._d_first,
            self._parts,
            n,
            self._sizes["n_hidden"],
            self._sizes["n_classes"],
            -(-n // (_N_PARTS * _ROWS)),
            ROWS=_ROWS,
            **self._widths,
            num_warps=4,
        )
        pattern = self._adj.pattern
        row_product(*self._adj.arrays, self._d_first, longest=pattern.longest, out=self._d_spread)

    def judge(self) -> None:  # noqa: D102
        assert self._validation is not None  # the callers have looked
        first, second, losses, hits = self._judged
        self._forward(first, second, trains=False)
        self._outputs(*self._validation, second, losses, hits, False)
        step_kernels.verdict[(1,)](
            losses,
            hits,
            self._epoch,
            self._table,
            self.measured,
            self._best,
            len(losses),
            LABELS=1024,
            num_warps=4,
        )
        n_theta = len(self._theta)
        step_kernels.keep_best[(-(-n_theta // 1024),)](
            self._theta, self._kept, self._best, n_theta, WIDTH=1024, num_warps=4
        )

    def step(self) -> None:  # noqa: D102
        labels, n_theta = self._task.labels, len(self._theta)
        (n_features, h, c), widths = self._sizes.values(), self._widths
        decay = self._task.settings.weight_decay
        step_kernels.first_weight_step[(n_features,)](
            self._xt.pattern.offsets,
            self._xt.pattern.columns,
            self._xt.pattern.source,
            self._xt.values,
            self._d_spread,
            self._theta,
            self._moments,
            self._noise,
            self._step,
            self._table,
            **self._dropout,
            decay=decay,
            n_theta=n_theta,
            n_hidden=h,
            DROPS=self._drops,
            HIDDEN=widths["HIDDEN"],
            **self._xt.tile,
        )
        step_kernels.other_steps[(-(-self._parts.shape[1] // _WIDTH) + 1,)](
            self._parts,
            self._d_outputs,
            labels.nodes,
            self._label_losses,
            self._theta,
            self._moments,
            self._epoch,
            self._step,
            self._table,
            self.losses,
            decay,
            1 / len(labels),
            n_theta,
            n_features * h,
            len(labels),
            h,
            c,
            N_PARTS=_N_PARTS,
            WIDTH=_WIDTH,
            LABELS=_LABELS,
            CLASSES=widths["CLASSES"],
            num_warps=4,
        )

    def finish(self) -> None:  # noqa: D102
        self._give(self._kept if self.judges else self._theta)

    def undo(self) -> None:  # noqa: D102
        self._task.generators()[0].set_state(self._noise_state)  # parameters were only read

    @property
    def _drops(self) -> bool:
        return self._dropout["n_dropped"] > 0

    @torch.no_grad()
    def _give(self, theta: Tensor) -> None:
        sizes = [parameter.numel() for parameter in self._parameters]
        for parameter, part in zip(self._parameters, torch.split(theta, sizes)):
            parameter.copy_(part.view_as(parameter))

    def _forward(self, first: Tensor, second: Tensor, *, trains: bool) -> None:
        """Compute what the last layer spreads over the graph, with dropout in training."""
        h, drops = self._widths["HIDDEN"], self._drops and trains
        noise: dict[str, Any] = {"noise": self._noise, "epoch": self._epoch} | self._dropout
        gcn_kernels.first_products[(self._task.n_nodes,)](
            *self._x.arrays,
            self._theta,
            first,
            **noise,
            n_hidden=self._sizes["n_hidden"],
            DROPS=drops,
            HIDDEN=h,
            **self._x.tile,
        )
        gcn_kernels.hidden_layer[(self._task.n_nodes,)](
            *self._adj.arrays,
            first,
            self._theta,
            self._hidden,
            second,
            **noise,
            n_stored=len(self._x.values),
            **self._sizes,
            **self._widths,
            TRAINS=trains,
            DROPS=drops,
            **self._adj.tile,
        )

    def _outputs(
        self,
        nodes: Tensor,
        classes: Tensor,
        second: Tensor,
        losses: Tensor,
        found: Tensor,
        trains: bool,
    ) -> None:
        """Compute the losses of some nodes, and their gradients or hits."""
        c = self._sizes["n_classes"]
        gcn_kernels.labelled_outputs[(len(nodes),)](
            nodes,
            classes,
            *self._adj.arrays,
            second,
            self._theta[-c:],
            losses,
            found,
            self._epoch,
            self._step,
            1 / len(nodes),
            c,
            TRAINS=trains,
            CLASSES=self._widths["CLASSES"],
            **self._adj.tile,
        )


def _table(schedule: Schedule) -> Tensor:
    """Return deadlines and what Adam's step takes from the number of the epoch."""
    steps = torch.arange(1, len(schedule.deadlines) + 1, dtype=torch.float64)
    size, root = schedule.learning_rate / (1 - 0.9**steps), (1 - 0.999**steps).sqrt()
    deadlines = torch.tensor(schedule.deadlines, dtype=torch.float64)
    return torch.stack([deadlines, size, root], 1).float()
