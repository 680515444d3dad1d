"""What labels really change: the whole fit runs again without each of them."""

from collections.abc import Callable, Sequence

import numpy as np
from jaxtyping import Float, Int

Refit = Callable[[np.ndarray, int], np.ndarray]
"""Fits without the labels of some nodes, with a seed; returns the probabilities of all nodes."""

_MOST_FITS = 80
_MOST_NODES, _MOST_NUMBERS = 1_000, 100_000


def is_quickly_refitted(n_fits: int, shape: tuple[int, int]) -> bool:
    """Tell whether this many fits are made while nobody waits for long.

    Parameters
    ----------
    n_fits
        How many.
    shape
        Rows and columns of the features.

    Examples
    --------
    >>> [is_quickly_refitted(n_fits, (150, 4)) for n_fits in (26, 200)]
    [True, False]
    """
    n_nodes, n_columns = shape
    is_small = n_nodes <= _MOST_NODES and n_nodes * n_columns <= _MOST_NUMBERS
    return is_small and n_fits <= _MOST_FITS


def left_out_effects(
    refit: Refit, labelled: Int[np.ndarray, "l"], seeds: Sequence[int]
) -> Float[np.ndarray, "l n c"]:
    """Return what each label adds to the class probabilities of all nodes.

    One fit differs from the next by its dropout alone about as much as by one label, so fits with
    and without the label are compared seed by seed and the differences averaged. Costs
    ``len(seeds) * (len(labelled) + 1)`` fits.

    Parameters
    ----------
    refit
        The whole fit, without the labels of some nodes.
    labelled
        Nodes whose labels are left out, one at a time.
    seeds
        Of the fits, one at least.
    """
    effects = []
    for seed in seeds:
        whole = refit(np.empty(0, dtype=np.int64), seed)
        effects.append([whole - refit(np.array([node]), seed) for node in labelled.tolist()])
    return np.asarray(np.mean(effects, 0))
