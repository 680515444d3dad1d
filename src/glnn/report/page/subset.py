"""What of a large graph the page carries, and the arrays in which it does."""

import base64
import gzip
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from jaxtyping import Float, Int

from glnn.report.layout import plane_layout
from glnn.report.page.page_data import (
    ADDED,
    DROPPED,
    Links,
    LinkTerms,
    PageData,
    links_of,
    upper_links,
)

# --- pack: Arrays and words as one compact text that the page's script unpacks

_KINDS = {"uint8": 1, "uint16": 2, "uint32": 4, "float32": 4}


def packed(words: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> str:
    """Return Base64 of gzip of: header length, header, words, arrays, each on a multiple of four.

    Parameters
    ----------
    words
        Anything JSON can hold.
    arrays
        Arrays of ``uint8``, ``uint16``, ``uint32`` or ``float32``, stored little-endian.

    Examples
    --------
    >>> words, arrays = unpacked(packed({"a": 1}, {"b": np.arange(3, dtype=np.uint16)}))
    >>> words, arrays["b"].tolist()
    ({'a': 1}, [0, 1, 2])
    """
    blocks = [json.dumps(words, allow_nan=False).encode()]
    table: list[dict[str, Any]] = [{"name": "words", "kind": "json", "shape": [len(blocks[0])]}]
    for name, array in arrays.items():
        kind = array.dtype.name
        if kind not in _KINDS:
            raise TypeError(f"{name} must be one of {', '.join(_KINDS)}, got {kind}.")
        table.append({"name": name, "kind": kind, "shape": list(array.shape)})
        blocks.append(np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<")).tobytes())
    header = _padded(json.dumps(table).encode())
    whole = len(header).to_bytes(4, "little") + header + b"".join(map(_padded, blocks))
    return base64.b64encode(gzip.compress(whole, 6, mtime=0)).decode("ascii")


def unpacked(text: str) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Return what :func:`packed` was given, as the page's script reads it."""
    whole = gzip.decompress(base64.b64decode(text))
    at = 4 + int.from_bytes(whole[:4], "little")
    words: dict[str, Any] = {}
    arrays: dict[str, np.ndarray] = {}
    for entry in json.loads(whole[4:at]):
        n_entries = int(np.prod(entry["shape"]))
        size = n_entries * _KINDS.get(entry["kind"], 1)
        block = whole[at : at + size]
        if entry["kind"] == "json":
            words = json.loads(block)
        else:
            kind = np.dtype(entry["kind"]).newbyteorder("<")
            arrays[entry["name"]] = np.frombuffer(block, kind).reshape(entry["shape"])
        at += size + -size % 4
    return words, arrays


def scaled_to(values: np.ndarray, dtype: type[np.unsignedinteger[Any]], top: float) -> np.ndarray:
    """Return values between 0 and ``top`` as whole numbers that fill the type's range.

    Examples
    --------
    >>> scaled_to(np.array([0.0, 0.5, 1.0, 2.0]), np.uint8, 1.0).tolist()
    [0, 128, 255, 255]
    """
    most = float(np.iinfo(dtype).max)
    share = np.clip(np.nan_to_num(values) / (top or 1.0), 0.0, 1.0)
    return np.asarray(np.rint(share * most).astype(dtype))


def _padded(block: bytes) -> bytes:
    return block + b" " * (-len(block) % 4)


# --- shown: What of a large graph the page carries, and the arrays in which it does

MOST_NODES = 20_000
MOST_LINKS = 150_000
N_COLUMNS = 2
"""Columns named for each link."""


@dataclass(frozen=True, eq=False)
class Shown:
    """The nodes and links that the page draws, and a sentence on what it leaves out.

    ``fates`` counts all links among the chosen nodes, drawn or not: kept, added, dropped.
    """

    chosen: Int[np.ndarray, "m"]
    links: Links
    places: Float[np.ndarray, "m 2"]
    fates: tuple[int, ...]
    left_out: str


def shown_part(page: PageData, most_nodes: int = MOST_NODES, most_links: int = MOST_LINKS) -> Shown:
    """Choose nodes and links, and lay them out.

    Labelled and suspect nodes come first, others are drawn without a pattern.
    """
    n_nodes, graphs = len(page.nodes), page.graphs
    chosen = _chosen_nodes(page, most_nodes)
    learned = graphs.learned[chosen][:, chosen]
    given = None if graphs.given is None else graphs.given[chosen][:, chosen]
    links = links_of(learned, given)
    if len(chosen) < n_nodes:  # places follow the links of the whole graph
        whole = links_of(graphs.learned, None)
        inside = np.isin(whole.source, chosen) & np.isin(whole.target, chosen)
        place = links.place.copy()
        place[links.fate != DROPPED] = np.flatnonzero(inside)
        links = Links(links.source, links.target, links.weight, links.fate, place)
    fates = tuple(np.bincount(links.fate, minlength=3).tolist())
    links = drawn_links(links, most_links)
    known = page.nodes.places
    places = plane_layout(learned, page.nodes.predicted[chosen]) if known is None else known[chosen]
    left_out = _left_out(n_nodes, len(chosen), sum(fates), len(links))
    return Shown(chosen, links, places, fates, left_out)


def drawn_links(links: Links, most: int) -> Links:
    """Return at most this many links: each node's heaviest, then given ones, then by weight."""
    if len(links) <= most:
        return links
    by_weight = np.argsort(-links.weight, kind="stable")
    rank = np.empty(len(links))
    rank[by_weight] = np.arange(len(links))
    rank[links.fate != ADDED] -= len(links)
    for ends in (links.source, links.target):
        _, first = np.unique(ends[by_weight], return_index=True)
        rank[by_weight[first]] -= 2 * len(links)
    return links.pick(np.sort(np.argpartition(rank, most - 1)[:most]))


def _chosen_nodes(page: PageData, most: int) -> np.ndarray:
    n_nodes = len(page.nodes)
    if n_nodes <= most:
        return np.arange(n_nodes)
    rank = np.random.default_rng(0).random(n_nodes)
    rank[page.nodes.seen] -= 1.0
    rank[page.nodes.suspect] -= 2.0
    return np.sort(np.argpartition(rank, most - 1)[:most])


def _left_out(n_nodes: int, n_chosen: int, n_links: int, n_kept: int) -> str:
    said = []
    if n_chosen < n_nodes:
        said.append(
            f"Map and table carry {n_chosen:,} of {n_nodes:,} nodes: all labelled ones first, the "
            "others drawn at random, with the links among them. Every number elsewhere on this "
            "page counts all nodes."
        )
    if n_kept < n_links:
        said.append(
            f"Of {n_links:,} links {n_kept:,} are drawn: each node's heaviest, those of the given "
            "graph, then the heaviest of all."
        )
    return " ".join(said)


def page_arrays(page: PageData, shown: Shown) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Return the words and arrays that the page's script works on."""
    nodes, chosen, links = page.nodes, shown.chosen, shown.links
    top = float(links.weight.max(initial=0.0)) or 1.0
    words = {
        "ids": [nodes.ids[k] for k in chosen],
        "classes": list(page.class_names),
        "topWeight": top,
        "hasGiven": page.graphs.given is not None,
    }
    low, high = shown.places.min(0), shown.places.max(0)
    index = np.uint16 if len(chosen) <= np.iinfo(np.uint16).max else np.uint32
    arrays = {
        "places": scaled_to(shown.places - low, np.uint16, float((high - low).max())),
        "predicted": _classes(nodes.predicted[chosen]),
        "truth": _classes(nodes.truth[chosen]),
        "judged": _classes(nodes.judged[chosen]),
        "flags": (nodes.seen[chosen] + 2 * nodes.suspect[chosen]).astype(np.uint8),
        "probabilities": scaled_to(nodes.probabilities[chosen], np.uint16, 1.0),
        "source": links.source.astype(index),
        "target": links.target.astype(index),
        "weight": scaled_to(links.weight, np.uint16, top),
        "fate": links.fate,
        "degree": degrees(page.graphs.learned)[chosen].astype(np.uint32),
    }
    if page.graphs.terms is not None:
        more_words, more_arrays = _term_arrays(page.graphs.terms, links)
        return words | more_words, arrays | more_arrays
    return words, arrays


def degrees(graph: sp.csr_matrix) -> Int[np.ndarray, "n"]:
    """Return how many neighbours each node has, itself aside.

    Examples
    --------
    >>> degrees(sp.csr_matrix(np.array([[2.0, 1.0], [1.0, 0.0]]))).tolist()
    [1, 1]
    """
    links = upper_links(graph)
    return np.bincount(np.concatenate([links.row, links.col]), minlength=graph.shape[0])


def _classes(numbers: np.ndarray) -> np.ndarray:
    """Return class numbers shifted by one, so that 0 means unknown."""
    return (numbers + 1).astype(np.uint16)


def _term_arrays(terms: LinkTerms, links: Links) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Return each learned link's shares, a dropped one's as zeros; float32 since signs differ."""
    shares = np.zeros((len(links), len(terms.names)), np.float32)
    learned = links.fate != DROPPED
    shares[learned] = terms.shares[links.place[learned]]
    words: dict[str, Any] = {"terms": list(terms.names)}
    arrays = {"shares": _short(shares)}
    if terms.columns is not None and terms.column_shares is not None:
        n_named = min(N_COLUMNS, terms.columns.shape[1])
        named = np.zeros((len(links), n_named), np.uint16)
        counts = np.zeros((len(links), n_named))
        named[learned] = terms.columns[links.place[learned], :n_named]
        counts[learned] = terms.column_shares[links.place[learned], :n_named]
        words["columnNames"] = list(terms.column_names)
        arrays |= {"columns": named, "columnShares": scaled_to(counts, np.uint8, 1.0)}
    return words, arrays


def _short(shares: np.ndarray) -> np.ndarray:
    """Keep eight bits of each number's mantissa: enough to read, and gzip packs the rest away."""
    bits = np.ascontiguousarray(shares, np.float32).view(np.uint32)
    return (bits & np.uint32(0xFFFF8000)).view(np.float32)
