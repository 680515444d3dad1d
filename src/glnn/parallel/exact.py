"""Gradients of parameters over the rows of all processes, whatever network uses them."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from glnn.parallel.sums import Sums

_PRODUCTS = (torch.matmul, Tensor.matmul, Tensor.__matmul__)
_ADDITIONS = (torch.add, Tensor.add, Tensor.__add__)
_TURNS = (Tensor.T.__get__, Tensor.__getitem__)  # type: ignore[attr-defined]


class ExactParameters(TorchFunctionMode):
    """Inside this context a network on some rows gets the gradients of all rows.

    A parameter may be the right factor of a product with signals, or be added to them as a bias:
    both are done as always, and their gradients are summed over the rows of all processes.
    """

    def __init__(self, sums: Sums) -> None:
        super().__init__()
        self._sums = sums

    def __torch_function__(
        self,
        function: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        if isinstance(args[0] if args else None, nn.Parameter) and function in _TURNS:
            return _Turned(function(*args), args[0])
        if len(args) != 2:
            return function(*args, **(kwargs or {}))
        x, parameter = args
        if function in _PRODUCTS and isinstance(x, _Turned):
            turned: Tensor = _Product.apply(parameter.mT, x.parameter, self._sums)  # type: ignore[no-untyped-call]
            return turned.mT
        if function in _ADDITIONS and isinstance(parameter, _Turned):
            return _Shift.apply(x.mT, parameter.parameter, self._sums).mT  # type: ignore[no-untyped-call]
        if function in _PRODUCTS and isinstance(parameter, nn.Parameter):
            return _Product.apply(x, parameter, self._sums)  # type: ignore[no-untyped-call]
        if function in _ADDITIONS and isinstance(parameter, nn.Parameter):
            return _Shift.apply(x, parameter, self._sums)  # type: ignore[no-untyped-call]
        return function(*args, **(kwargs or {}))


class _Turned:
    """A parameter that is used the other way round: as a left factor, or as a column."""

    def __init__(self, value: Tensor, parameter: nn.Parameter) -> None:
        self.value, self.parameter = value, parameter

    def __matmul__(self, x: Tensor) -> Tensor:
        return torch.matmul(self, x)  # type: ignore[arg-type] # the context takes care of it

    @classmethod
    def __torch_function__(cls, *args: Any) -> Any:
        raise AssertionError("only inside the context")


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, sums: Sums) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.sums = sums
        return sums.forward(x, weight)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, Tensor, None]:
        x, weight = ctx.saved_tensors
        (g,) = grads
        for_x = ctx.sums.forward(g, weight.T) if ctx.needs_input_grad[0] else None
        return for_x, ctx.sums.product(x, g), None


class _Shift(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, bias: Tensor, sums: Sums) -> Tensor:
        ctx.sums = sums
        return x + bias

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, None]:
        (g,) = grads
        return g, ctx.sums.over_rows(g), None
