"""The linear term of the graph problem, known on a fixed list of pairs only."""

import dataclasses
from dataclasses import dataclass, field

import numpy as np

from glnn.solver.implicit import Implicit
from glnn.solver.pairs import Pairs


@dataclass(frozen=True, eq=False)
class KnownLinear(Implicit):
    r"""The matrix :math:`c + u_i + u_j + t\,[i=j] + k_{ij}`, with :math:`k` known on its pairs.

    The products of signals that :math:`k` holds need the rows of other processes, so they are
    evaluated once.
    """

    pairs: Pairs = field(kw_only=True)
    known: np.ndarray = field(kw_only=True)

    def __add__(self, other: Implicit) -> "KnownLinear":
        assert other.sparse is None and not other.factors  # row sums and loops have neither
        return dataclasses.replace(
            self,
            nodes=self.nodes + other.nodes,
            constant=self.constant + other.constant,
            loop=self.loop + other.loop,
        )

    def on_pairs(self, pairs: Pairs) -> np.ndarray:
        """Return the entries on the pairs, which must be those it is known on."""
        assert len(pairs) == len(self.pairs)
        return np.asarray(super().on_pairs(pairs) + self.known)
