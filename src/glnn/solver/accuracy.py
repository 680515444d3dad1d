"""How exact a graph must be: violations are measured against the size of its entries."""

import math

from torch import Tensor

_SMALL = 0.01  # graphs with entries below this are held to a hundred times their largest entry
_ROUNDING = 1e-6  # share of the gains below which entries are too small to be told from rounding


def largest(values: Tensor) -> float:
    """Return the largest of some numbers, at least 0; infinity if one of them is NaN.

    Examples
    --------
    >>> largest(torch.tensor([-1.0])), largest(torch.tensor([2.0, torch.nan]))
    (0.0, inf)
    """
    found = float(values.max()) if len(values) else 0.0
    return math.inf if math.isnan(found) else max(0.0, found)


def unit(entry: float, gain: float) -> float:
    """Return what a violation is measured against.

    One for graphs as they usually are; the largest entry where that is above one; less than one
    where all entries are tiny, so that a graph of other tiny entries is not as good. Zero where
    an entry is not finite: then nothing is exact.

    Parameters
    ----------
    entry
        The largest entry of the graph.
    gain
        The largest entry that the linear terms alone would give or take.

    Examples
    --------
    >>> unit(0.3, 1.0), unit(20.0, 1.0), unit(0.0001, 0.0)
    (1.0, 20.0, 0.01)
    """
    if not math.isfinite(entry):
        return 0.0
    return max(entry, min(1.0, entry / _SMALL), _ROUNDING * gain)
