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
import scipy.sparse as sp
from jaxtyping import Float, Int

from glnn.report.layout import plane_layout
from glnn.report.page.page_data import (
    ADDED,
    DROPPED,
    Links,
    LinkTerms,
    PageData,
    extract_links,
    merge_links,
)

_KINDS = {"uint8": 1, "uint16": 2, "uint32": 4, "float32": 4}


def encode_block(words: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> str:
    """Return words and arrays as one text that the page's script decodes.

    The text is Base64 of gzip of the header's length, the header, the words as JSON and the arrays
    in little-endian order, each padded to a multiple of four bytes.

    Examples
    --------
    >>> words, arrays = decode_block(encode_block({"a": 1}, {"b": np.arange(3, dtype=np.uint16)}))
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
    header = _pad(json.dumps(table).encode())
    whole = len(header).to_bytes(4, "little") + header + b"".join(map(_pad, blocks))
    return base64.b64encode(gzip.compress(whole, 6, mtime=0)).decode("ascii")


def decode_block(text: str) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Invert :func:`encode_block`, as the page's script does."""
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


def quantize(values: np.ndarray, dtype: type[np.unsignedinteger[Any]], top: float) -> np.ndarray:
    """Map values from [0, ``top``] to the whole range of an unsigned integer type.

    Examples
    --------
    >>> quantize(np.array([0.0, 0.5, 1.0, 2.0]), np.uint8, 1.0).tolist()
    [0, 128, 255, 255]
    """
    most = float(np.iinfo(dtype).max)
    share = np.clip(np.nan_to_num(values) / (top or 1.0), 0.0, 1.0)
    return np.asarray(np.rint(share * most).astype(dtype))


def _pad(block: bytes) -> bytes:
    return block + b" " * (-len(block) % 4)


MAX_NODES = 20_000
MAX_LINKS = 150_000
N_COLUMNS = 2  # feature columns named for each link


@dataclass(frozen=True, eq=False)
class PageSubset:
    """The nodes and links that the page draws."""

    chosen: Int[np.ndarray, "m"]  # numbers of the drawn nodes
    links: Links  # the drawn links, numbered among the chosen nodes
    places: Float[np.ndarray, "m 2"]  # positions on the map
    fates: tuple[int, ...]  # counts of all links among the chosen nodes: kept, added, dropped
    left_out: str  # a sentence on what is not drawn


def select_subset(
    page: PageData, max_nodes: int = MAX_NODES, max_links: int = MAX_LINKS
) -> PageSubset:
    """Choose the nodes and links to draw, and compute the positions of the nodes.

    Suspect and labelled nodes are chosen first, the rest at random with a fixed seed.
    """
    n_nodes, graphs = len(page.nodes), page.graphs
    chosen = _select_nodes(page, max_nodes)
    learned = graphs.learned[chosen][:, chosen]
    given = None if graphs.given is None else graphs.given[chosen][:, chosen]
    links = merge_links(learned, given)
    if len(chosen) < n_nodes:  # indices refer to the links of the whole graph
        whole = merge_links(graphs.learned, None)
        inside = np.isin(whole.source, chosen) & np.isin(whole.target, chosen)
        learned_index = links.learned_index.copy()
        learned_index[links.fate != DROPPED] = np.flatnonzero(inside)
        links = Links(links.source, links.target, links.weight, links.fate, learned_index)
    fates = tuple(np.bincount(links.fate, minlength=3).tolist())
    links = select_links(links, max_links)
    known = page.nodes.places
    places = plane_layout(learned, page.nodes.predicted[chosen]) if known is None else known[chosen]
    left_out = _describe_omissions(n_nodes, len(chosen), sum(fates), len(links))
    return PageSubset(chosen, links, places, fates, left_out)


def select_links(links: Links, most: int) -> Links:
    """Return at most ``most`` links: each node's heaviest, then given links, then by weight."""
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


def _select_nodes(page: PageData, most: int) -> np.ndarray:
    n_nodes = len(page.nodes)
    if n_nodes <= most:
        return np.arange(n_nodes)
    rank = np.random.default_rng(0).random(n_nodes)
    rank[page.nodes.seen] -= 1.0
    rank[page.nodes.suspect] -= 2.0
    return np.sort(np.argpartition(rank, most - 1)[:most])


def _describe_omissions(n_nodes: int, n_chosen: int, n_links: int, n_kept: int) -> str:
    sentences = []
    if n_chosen < n_nodes:
        sentences.append(
            f"The map and the table show {n_chosen:,} of {n_nodes:,} nodes: the labelled ones "
            "first, the rest chosen at random, with the links among them. All other numbers on "
            "this page count all nodes."
        )
    if n_kept < n_links:
        sentences.append(
            f"Of {n_links:,} links {n_kept:,} are drawn: the heaviest of each node, those of the "
            "given graph, then the heaviest overall."
        )
    return " ".join(sentences)


def build_arrays(page: PageData, shown: PageSubset) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Return the words and arrays for the page's script."""
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
        "places": quantize(shown.places - low, np.uint16, float((high - low).max())),
        "predicted": _shift_classes(nodes.predicted[chosen]),
        "truth": _shift_classes(nodes.truth[chosen]),
        "judged": _shift_classes(nodes.judged[chosen]),
        "flags": (nodes.seen[chosen] + 2 * nodes.suspect[chosen]).astype(np.uint8),
        "probabilities": quantize(nodes.probabilities[chosen], np.uint16, 1.0),
        "source": links.source.astype(index),
        "target": links.target.astype(index),
        "weight": quantize(links.weight, np.uint16, top),
        "fate": links.fate,
        "degree": degrees(page.graphs.learned)[chosen].astype(np.uint32),
    }
    if page.graphs.terms is not None:
        more_words, more_arrays = _build_term_arrays(page.graphs.terms, links)
        return words | more_words, arrays | more_arrays
    return words, arrays


def degrees(graph: sp.csr_matrix) -> Int[np.ndarray, "n"]:
    """Return the number of neighbours of each node, without loops.

    Examples
    --------
    >>> degrees(sp.csr_matrix(np.array([[2.0, 1.0], [1.0, 0.0]]))).tolist()
    [1, 1]
    """
    links = extract_links(graph)
    return np.bincount(np.concatenate([links.row, links.col]), minlength=graph.shape[0])


def _shift_classes(numbers: np.ndarray) -> np.ndarray:
    """Return class numbers plus one; 0 means unknown."""
    return (numbers + 1).astype(np.uint16)


def _build_term_arrays(
    terms: LinkTerms, links: Links
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Return the shares of each link, zero for dropped ones; float32 since they may be negative."""
    shares = np.zeros((len(links), len(terms.names)), np.float32)
    learned = links.fate != DROPPED
    shares[learned] = terms.shares[links.learned_index[learned]]
    words: dict[str, Any] = {"terms": list(terms.names)}
    arrays = {"shares": _truncate_mantissa(shares)}
    if terms.columns is not None and terms.column_shares is not None:
        n_named = min(N_COLUMNS, terms.columns.shape[1])
        named = np.zeros((len(links), n_named), np.uint16)
        counts = np.zeros((len(links), n_named))
        named[learned] = terms.columns[links.learned_index[learned], :n_named]
        counts[learned] = terms.column_shares[links.learned_index[learned], :n_named]
        words["columnNames"] = list(terms.column_names)
        arrays |= {"columns": named, "columnShares": quantize(counts, np.uint8, 1.0)}
    return words, arrays


def _truncate_mantissa(shares: np.ndarray) -> np.ndarray:
    """Keep eight bits of each mantissa: precise enough to read, and gzip compresses the zeros."""
    bits = np.ascontiguousarray(shares, np.float32).view(np.uint32)
    return (bits & np.uint32(0xFFFF8000)).view(np.float32)
