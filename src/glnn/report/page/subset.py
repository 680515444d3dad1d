"""The nodes and links that a page draws, and the block of data that its script reads.

A large graph is reduced to ``MAX_NODES`` nodes and ``MAX_LINKS`` links. The block is Base64 text of
a gzip archive with one JSON part (the words) and several arrays.
"""

import base64
import gzip
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from glnn.data.node_data import extract_links
from glnn.report.layout import plane_layout
from glnn.report.links import ADDED, DROPPED, N_NAMED, Links, LinkTerms, merge_links
from glnn.report.results import Results


def encode_block(words: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> str:
    """Return words and arrays as one text that the page's script decodes.

    The text is Base64 of gzip of the header's length, the header, the words as JSON and the arrays
    (uint8, uint16, uint32 or float32) in little-endian order, each padded to a multiple of four
    bytes.
    """
    blocks = [json.dumps(words, allow_nan=False).encode()]
    table: list[dict[str, Any]] = [{"name": "words", "kind": "json", "shape": [len(blocks[0])]}]
    for name, array in arrays.items():
        table.append({"name": name, "kind": array.dtype.name, "shape": list(array.shape)})
        blocks.append(np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<")).tobytes())
    header = _pad(json.dumps(table).encode())
    whole = len(header).to_bytes(4, "little") + header + b"".join(map(_pad, blocks))
    return base64.b64encode(gzip.compress(whole, 6, mtime=0)).decode("ascii")


def quantize(values: np.ndarray, dtype: type[np.unsignedinteger[Any]], top: float) -> np.ndarray:
    """Map values from [0, ``top``] to the whole range of an unsigned integer type."""
    most = float(np.iinfo(dtype).max)
    share = np.clip(np.nan_to_num(values) / (top or 1.0), 0.0, 1.0)
    return np.asarray(np.rint(share * most).astype(dtype))


def _pad(block: bytes) -> bytes:
    return block + b" " * (-len(block) % 4)


MAX_NODES = 20_000  # fewer than the values of 16 bits, as there may be as many values a column
MAX_LINKS = 150_000


@dataclass(frozen=True, eq=False)
class PageSubset:
    """The nodes and links that the page draws."""

    chosen: Int[np.ndarray, "m"]  # numbers of the drawn nodes
    links: Links  # the drawn links, numbered among the chosen nodes
    places: Float[np.ndarray, "m 2"]  # positions on the map
    fates: tuple[int, ...]  # counts of all links among the chosen nodes: kept, added, dropped


def select_subset(
    results: Results,
    places: Float[np.ndarray, "n 2"] | None = None,
    max_nodes: int = MAX_NODES,
    max_links: int = MAX_LINKS,
) -> PageSubset:
    """Choose the nodes and links to draw; positions of the nodes are computed if not given.

    Suspect and labelled nodes are chosen first, the rest at random with a fixed seed.
    """
    n_nodes, chosen = results.n_nodes, np.arange(results.n_nodes)
    if n_nodes > max_nodes:
        turn = np.random.default_rng(0).random(n_nodes) - results.seen - 2.0 * results.suspect
        turn[list(results.suggestions)] -= 2
        chosen = np.sort(np.argsort(turn)[:max_nodes])
    learned = results.adjacency[chosen][:, chosen]
    given = None if results.given is None else results.given[chosen][:, chosen]
    links = merge_links(learned, given)
    fates = links.count_fates()
    own = plane_layout(learned, results.predictions[chosen]) if places is None else places[chosen]
    return PageSubset(chosen, select_links(links, max_links), own, fates)


def select_links(links: Links, most: int) -> Links:
    """Return at most ``most`` links: each node's heaviest, then given links, then by weight."""
    if len(links) <= most:
        return links
    by_weight = np.argsort(-links.weight, kind="stable")
    is_first = np.zeros(len(links), dtype=bool)
    for ends in (links.source, links.target):
        _, first = np.unique(ends[by_weight], return_index=True)
        is_first[by_weight[first]] = True
    order = np.lexsort((-links.weight, links.fate == ADDED, ~is_first))
    return links.pick(np.sort(order[:most]))


def build_arrays(
    results: Results, shown: PageSubset
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Return the words and arrays for the page's script; class numbers are shifted by one."""
    chosen, links = shown.chosen, shown.links
    top = float(links.weight.max(initial=0.0)) or 1.0
    words: dict[str, Any] = {
        "ids": results.ids[chosen].astype(str).tolist(),
        "classes": list(results.class_names),
        "topWeight": top,
        "hasGiven": results.given is not None,
        "idName": results.id_name,
        "table": [],
    }
    place = {node: k for k, node in enumerate(chosen.tolist())}
    words["next"] = [place[node] for node in results.suggestions if node in place]
    cells, groups = [], []
    for column in results.columns:
        names, group = column.groups()  # of all rows, so that they are those of the slices
        texts, cell = column.pick(chosen).texts()
        parts = {"name": column.name, "words": texts, "groups": names}
        words["table"].append(parts | {"ordered": not column.is_text})
        cells.append(cell + 1)
        groups.append(group[chosen])
    low, high = shown.places.min(0), shown.places.max(0)
    size = float((high - low).max())
    corner = (low + high - size) / 2  # of the square whose middle is that of the nodes
    index = np.uint16 if len(chosen) <= np.iinfo(np.uint16).max else np.uint32
    ends = extract_links(results.adjacency)
    degree = np.bincount(np.concatenate([ends.row, ends.col]), minlength=results.n_nodes)
    arrays = {
        "places": quantize(shown.places - corner, np.uint16, size),
        "predicted": (results.predictions[chosen] + 1).astype(np.uint16),
        "truth": (results.labels[chosen] + 1).astype(np.uint16),
        "judged": (results.judged[chosen] + 1).astype(np.uint16),
        "flags": (results.seen[chosen] + 2 * results.suspect[chosen]).astype(np.uint8),
        "probabilities": quantize(results.probabilities[chosen], np.uint16, 1.0),
        "source": links.source.astype(index),
        "target": links.target.astype(index),
        "weight": quantize(links.weight, np.uint16, top),
        "fate": links.fate,
        "degree": degree[chosen].astype(np.uint32),
        "cells": np.array(cells, np.uint16).reshape(len(cells), len(chosen)),
        "groups": np.array(groups, np.uint8).reshape(len(groups), len(chosen)),
    }
    if results.terms is not None:
        words |= {
            "terms": list(results.terms.names),
            "columnNames": list(results.terms.column_names),
        }
        is_learned = links.fate != DROPPED
        own = chosen[links.source] * results.n_nodes + chosen[links.target]
        every = ends.row.astype(np.int64) * results.n_nodes + ends.col  # sorted, as the terms
        at = every.searchsorted(own[is_learned])
        arrays |= _build_term_arrays(results.terms, is_learned, at)
    return words, arrays


def _build_term_arrays(
    terms: LinkTerms, learned: np.ndarray, at: np.ndarray
) -> dict[str, np.ndarray]:
    """Return the shares of each link, zero for dropped ones; float32 since they may be negative.

    ``learned`` is a mask of the links, and ``at`` where those are among all that have terms.
    """
    shares = np.zeros((len(learned), len(terms.names)), np.float32)
    shares[learned] = terms.shares[at]
    # Eight bits of each mantissa are precise enough to read, and gzip compresses the zeros.
    bits = shares.view(np.uint32) & np.uint32(0xFFFF8000)
    n_named = min(N_NAMED, terms.columns.shape[1])
    named = np.zeros((len(learned), n_named), np.uint16)
    counts = np.zeros((len(learned), n_named))
    named[learned], counts[learned] = terms.columns[at, :n_named], terms.column_shares[at, :n_named]
    return {
        "shares": bits.view(np.float32),
        "columns": named,
        "columnShares": quantize(counts, np.uint8, 1.0),
    }
