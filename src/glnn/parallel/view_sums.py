"""Sums over the nodes of all processes in the gradients of random views."""

import torch
from jaxtyping import Float
from torch import Tensor

from glnn.nn.random_views import ViewSums
from glnn.parallel.sums import Sums


class RowViewSums(ViewSums):
    """The sums of :class:`ViewSums` with their bits, where each process has some rows."""

    def __init__(self, sums: Sums) -> None:
        self._sums = sums

    def over_nodes(self, g: Float[Tensor, "n d"]) -> Float[Tensor, "d"]:  # noqa: D102
        return self._sums.over_rows(g)

    def of_classes(self, by_class: Float[Tensor, "v c n"]) -> Float[Tensor, "c"]:  # noqa: D102
        return self._sums.over_rows(by_class.mT)

    def of_products(
        self, by_class: Float[Tensor, "v c n"], hidden: Float[Tensor, "n vh"]
    ) -> Float[Tensor, "c h"]:
        """Each process multiplies its columns of the hidden signals, of all rows."""
        n_views, n_classes, _ = by_class.shape
        width = hidden.shape[1] // n_views
        share, own = self._sums.share(hidden.shape[1]), self._sums.turned(hidden)
        products = hidden.new_zeros(n_views, n_classes, width)
        for v in range(n_views):
            first, last = max(share.start, v * width), min(share.stop, (v + 1) * width)
            for classes in self._sums.columns(n_classes):
                part = self._sums.whole(by_class[v, classes].T.contiguous()).T.contiguous()
                if first < last and len(part):
                    columns = slice(first - v * width, last - v * width)
                    here = own[:, first - share.start : last - share.start]
                    products[v, classes, columns] = torch.bmm(part[None], here[None])[0]
        return self._sums.everyones(products).sum(0)
