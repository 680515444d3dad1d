"""Parts of a fit as named arrays and plain values, and back: for saved models and checkpoints."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import nn

from glnn.engine.archive import pack_matrix, unpack_matrix
from glnn.engine.array_file import Spread
from glnn.engine.settings import FitSettings, GraphSettings, HeadSettings
from glnn.objective import Weights
from glnn.objective.new_row import RowShare
from glnn.peers import Partition
from glnn.solver import FeatureSignal, NewRowProblem
from glnn.solver.prior_rows import PriorRows

_SHARE = "new_rows.share."


def pack_networks(networks: Sequence[nn.Module], arrays: dict[str, np.ndarray | Spread]) -> None:
    """Add the parameters of networks to the arrays, in their order."""
    for place, network in enumerate(networks):
        for name, value in network.state_dict().items():
            arrays[f"network.{place}.{name}"] = value.cpu().numpy()


def fill_networks(networks: Sequence[nn.Module], arrays: dict[str, np.ndarray]) -> None:
    """Give networks the parameters that :func:`pack_networks` added."""
    for place, network in enumerate(networks):
        prefix = f"network.{place}."
        state = {
            name.removeprefix(prefix): torch.from_numpy(array.copy())
            for name, array in arrays.items()
            if name.startswith(prefix)
        }
        network.load_state_dict(state)


_HEAD_LISTS = ("cautious", "unwatched", "competitors", "unwatched_competitors", "partners")


def settings_of(page: dict[str, Any]) -> FitSettings:
    """Return the settings that were written as plain values."""
    parts: dict[str, Any] = dict(page)
    for name in ("graph", "no_graph"):
        parts[name] = graph_settings_of(page[name])
    for name in _HEAD_LISTS:
        parts[name] = tuple(HeadSettings(**head) for head in page[name])
    parts["head"] = HeadSettings(**page["head"])
    parts["plain"] = page["plain"] and HeadSettings(**page["plain"])
    return FitSettings(**parts)


def graph_settings_of(page: dict[str, Any]) -> GraphSettings:
    """Return those of the graph step, likewise."""
    changes = {
        "weights": Weights(**page["weights"]),
        "signals": tuple(page["signals"]),
        "dial": tuple(page["dial"]),
    }
    return GraphSettings(**(page | changes))


def pack_new_rows(
    rows: NewRowProblem, arrays: dict[str, np.ndarray | Spread], partition: Partition | None = None
) -> dict[str, Any]:
    """Add the one-row problem to the arrays; return its plain facts.

    With a partition each process has its rows of signals and prior graph.
    """
    shares, facts = rows.share.packed()
    arrays |= {_SHARE + name: array for name, array in shares.items()}
    for name in ("scale", "shift"):
        pack_matrix(f"new_rows.transform.{name}", getattr(rows.transform, name), arrays)
    pack_matrix("new_rows.signal", rows.signal, arrays, partition)
    if rows.prior is not None:
        arrays["new_rows.prior.degrees"] = rows.prior.degrees
        pack_matrix("new_rows.prior", rows.prior.prior, arrays, partition)
    return {
        "transform": {"kind": rows.transform.kind, "n_features": rows.transform.n_features},
        "share": facts,
        "prior": None if rows.prior is None else rows.prior.kind,
        "has_loops": rows.has_loops,
        "n_candidates": rows.n_candidates,
    }


def unpack_new_rows(page: dict[str, Any], arrays: dict[str, np.ndarray]) -> NewRowProblem:
    """Return the one-row problem that :func:`pack_new_rows` took apart."""
    transform = "new_rows.transform."
    scale, shift = (unpack_matrix(transform + name, arrays) for name in ("scale", "shift"))
    prior = None
    if page["prior"] is not None:
        matrix = unpack_matrix("new_rows.prior", arrays)
        prior = PriorRows(page["prior"], arrays["new_rows.prior.degrees"], matrix)
    shares = {name.removeprefix(_SHARE): a for name, a in arrays.items() if name.startswith(_SHARE)}
    return NewRowProblem(
        FeatureSignal(page["transform"]["kind"], page["transform"]["n_features"], scale, shift),
        unpack_matrix("new_rows.signal", arrays),
        RowShare.unpacked(shares, page["share"]),
        prior,
        page["has_loops"],
        page["n_candidates"],
    )
