"""A callback that writes what TensorBoard shows."""

import importlib
from pathlib import Path
from typing import Any

import scipy.sparse as sp

from glnn.engine.callbacks import Callback
from glnn.engine.history import Record
from glnn.exceptions import MissingDependencyError


class TensorBoardLog(Callback):
    """Write every number of every epoch, and the edges of each round's graph, for TensorBoard.

    ``tensorboard --logdir FOLDER`` shows them while the fit runs. Each stage of training has its
    own group (``classifier 1/loss``), with the epoch as step; ``graph/edges`` has the round.

    Parameters
    ----------
    folder
        Where the events go.
    """

    may_lag = True

    def __init__(self, folder: str | Path) -> None:
        try:
            board: Any = importlib.import_module("torch.utils.tensorboard")
        except ImportError as error:
            raise MissingDependencyError(
                "this needs the package tensorboard, which is not installed. "
                "Install it with: pip install 'glnn[tensorboard]'"
            ) from error
        self._writer = board.SummaryWriter(str(folder))

    def on_epoch_end(self, stage: str, record: Record) -> bool:
        """Write the numbers of the epoch."""
        for name, value in record.items():
            if name != "epoch" and isinstance(value, int | float):
                self._writer.add_scalar(f"{stage}/{name}", value, int(record["epoch"]))
        return False

    def on_stage_end(self, stage: str) -> None:
        """Let TensorBoard see all that was written."""
        self._writer.flush()

    def on_round_end(self, number: int, adjacency: sp.csr_matrix) -> None:
        """Write how many edges this process's rows of the graph have."""
        self._writer.add_scalar("graph/edges", adjacency.nnz / 2, number)
        self._writer.flush()
