"""Adam through PyTorch's functional form.

The class ``torch.optim.Adam`` imports PyTorch's compiler when it is first used, some seconds in
every new process, though nothing here is compiled. The function that does the work does not.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.optim.adam import adam


class Adam:
    """The steps of ``torch.optim.Adam`` on groups of parameters, fused.

    Parameters
    ----------
    groups
        For each group its ``params`` and, where it has one, its ``weight_decay``.
    learning_rate
        The step size.
    """

    def __init__(self, groups: Sequence[dict[str, Any]], learning_rate: float) -> None:
        self._learning_rate = learning_rate
        self._groups = [_Group(list(g["params"]), g.get("weight_decay", 0.0)) for g in groups]

    def zero_grad(self) -> None:
        """Forget all gradients."""
        for group in self._groups:
            group.zero_grad()

    @torch.no_grad()
    def step(self) -> None:
        """Change every parameter that has a gradient."""
        for group in self._groups:
            group.step(self._learning_rate)


class _Group:
    """Parameters of one weight decay, with their moments and numbers of steps."""

    def __init__(self, parameters: list[Tensor], weight_decay: float) -> None:
        self._parameters, self._weight_decay = parameters, weight_decay
        self._means, self._squares = ([torch.zeros_like(p) for p in parameters] for _ in range(2))
        self._steps = [torch.zeros((), dtype=torch.float32, device=p.device) for p in parameters]

    def zero_grad(self) -> None:
        for parameter in self._parameters:
            parameter.grad = None

    def step(self, learning_rate: float) -> None:
        state = (self._parameters, self._means, self._squares, self._steps)
        given = [row for row in zip(*state) if row[0].grad is not None]
        if not given:
            return
        parameters, means, squares, steps = (list(column) for column in zip(*given))
        adam(
            parameters,
            [parameter.grad for parameter in parameters],
            means,
            squares,
            [],
            steps,
            fused=True,
            capturable=parameters[0].is_cuda,
            amsgrad=False,
            beta1=0.9,
            beta2=0.999,
            lr=learning_rate,
            weight_decay=self._weight_decay,
            eps=1e-8,
            maximize=False,
        )
