"""What callbacks remember of a fit, in a checkpoint: a fit that goes on tells the same story."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from glnn.engine.archive import pack_matrix, unpack_matrix
from glnn.engine.callbacks import Callback

_Names = list[list[list[Any]]]
"""For each callback: name and numbers of each graph, as JSON has them."""


def pack_memories(callbacks: Sequence[Callback], arrays: dict[str, Any]) -> _Names:
    """Add the graphs that callbacks remember to the arrays; return their names and numbers."""
    found: _Names = []
    for place, callback in enumerate(callbacks):
        memory = callback.memory()
        for number, (graph, _) in enumerate(memory.values()):
            pack_matrix(_key(place, number), graph, arrays)
        found.append([[name, dict(numbers)] for name, (_, numbers) in memory.items()])
    return found


def recall_memories(
    callbacks: Sequence[Callback], packed: _Names, arrays: dict[str, np.ndarray]
) -> None:
    """Give callbacks back what they remembered; those that were not there before get nothing."""
    for place, (callback, names) in enumerate(zip(callbacks, packed)):
        graphs = [unpack_matrix(_key(place, number), arrays) for number in range(len(names))]
        callback.recall({name: (g, numbers) for (name, numbers), g in zip(names, graphs)})


def _key(place: int, number: int) -> str:
    return f"memory.{place}.{number}"
