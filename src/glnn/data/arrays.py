"""Arrays in canonical form: sorted CSR, symmetric graphs, ids and names that every format holds."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from glnn.data.files import shown
from glnn.exceptions import DataFormatError, InputError

MAX_COLUMNS = 100_000_000
"""More features than this are taken for a damaged or hostile file."""


def read_only(array: np.ndarray) -> np.ndarray:
    """Return the array with writing switched off, copied if something else could write to it."""
    if array.flags.writeable:
        array = array.copy()
        array.flags.writeable = False
    return array


def read_only_csr(matrix: sp.csr_matrix) -> sp.csr_matrix:
    """Return the matrix with its three arrays read-only."""
    for array in (matrix.data, matrix.indices, matrix.indptr):
        array.flags.writeable = False
    return matrix


def no_values(n_nodes: int, n_features: int) -> sp.csr_matrix:
    """Return features of which nothing is stored, in place of those that are elsewhere."""
    return sp.csr_matrix((n_nodes, n_features), dtype=np.float32)


def canonical_csr(name: str, matrix: Any) -> sp.csr_matrix:
    """Return a read-only float32 CSR copy: sorted columns, no repeats, no stored zeros."""
    if matrix.shape[1] > MAX_COLUMNS:
        raise InputError(
            f"{name} must have at most {MAX_COLUMNS:,} columns, got {matrix.shape[1]:,}."
        )
    canonical = _float32_csr(name, sp.csr_matrix(matrix, copy=True))
    canonical.sum_duplicates()
    canonical.eliminate_zeros()
    return read_only_csr(canonical)


def to_float32(values: np.ndarray) -> np.ndarray:
    """Return the values in single precision, infinite where they lie beyond it."""
    with np.errstate(over="ignore"):
        return values.astype(np.float32)


def _float32_csr(name: str, matrix: sp.csr_matrix) -> sp.csr_matrix:
    data = to_float32(matrix.data)
    if not np.isfinite(data).all():
        raise InputError(
            f"{name} must be finite and within float32 (below 3.4e38), got "
            f"{shown(matrix.data[~np.isfinite(data)][0])}. Rescale or impute first."
        )
    return sp.csr_matrix((data, matrix.indices, matrix.indptr), shape=matrix.shape)


def checked_csr(
    data: np.ndarray, indices: np.ndarray, indptr: np.ndarray, shape: tuple[int, int]
) -> sp.csr_matrix:
    """Return the CSR matrix of three arrays, after checking every index against the shape."""
    whole = all(array.dtype.kind in "iu" for array in (indices, indptr))
    flat = all(array.ndim == 1 for array in (data, indices, indptr))
    if not whole or not flat or indptr.size != shape[0] + 1 or data.size != indices.size:
        raise DataFormatError(
            f"a CSR matrix of shape {tuple(shape)} must have {shape[0] + 1} row starts and one "
            f"column for each value, got {indptr.size} row starts, {indices.size} columns, "
            f"{data.size} values."
        )
    starts, columns = indptr.astype(np.int64), indices.astype(np.int64)
    if starts[0] != 0 or starts[-1] != data.size or (np.diff(starts) < 0).any():
        raise DataFormatError("row starts of a CSR matrix must grow from 0 to its size.")
    if columns.size and (columns.min() < 0 or columns.max() >= shape[1]):
        raise DataFormatError(
            f"columns of a CSR matrix must lie in [0, {shape[1]}), got {columns.min()} to "
            f"{columns.max()}."
        )
    return sp.csr_matrix((data, columns, starts), shape=shape)


def check_adjacency(graph: Any, n_nodes: int) -> sp.csr_matrix:
    """Return the graph as canonical CSR if it is symmetric, non-negative and without loops."""
    if not sp.issparse(graph) or graph.shape != (n_nodes, n_nodes):
        shape = getattr(graph, "shape", type(graph).__name__)
        raise InputError(
            f"graph must be a sparse matrix of shape ({n_nodes}, {n_nodes}), got {shape}."
        )
    matrix = canonical_csr("graph", graph)
    if matrix.data.size and matrix.data.min() < 0:
        raise InputError(
            f"graph must have no negative weight, got {matrix.data.min():g}. "
            "Take absolute values or drop those edges."
        )
    if matrix.diagonal().any():
        raise InputError(
            "graph must have an empty diagonal, got self loops. Remove them with graph.setdiag(0)."
        )
    if (matrix != matrix.T).nnz:
        raise InputError(
            "graph must be symmetric, got one-way edges. "
            "Make it undirected with graph.maximum(graph.T)."
        )
    return matrix


def symmetric_from_pairs(
    source: np.ndarray,
    target: np.ndarray,
    n_nodes: int,
    weight: np.ndarray | None = None,
) -> sp.csr_matrix:
    """Return the undirected graph of a list of pairs.

    Self loops are left out; a pair named more than once, in either direction, keeps its largest
    weight; without weights every edge weighs 1.

    Examples
    --------
    >>> symmetric_from_pairs(np.array([0, 1]), np.array([1, 0]), 2).toarray().tolist()
    [[0.0, 1.0], [1.0, 0.0]]
    """
    source, target = source.astype(np.int64), target.astype(np.int64)
    ends = np.concatenate([source, target])
    if ends.size and (ends.min() < 0 or ends.max() >= n_nodes):
        raise InputError(
            f"edges must hold node numbers in [0, {n_nodes}), got {ends.min()} to {ends.max()}. "
            "Number the nodes from 0, or give features for every node."
        )
    codes = np.minimum(source, target) * n_nodes + np.maximum(source, target)
    links = source != target
    if weight is None:
        codes = distinct_codes(codes[links])
        values = np.ones(codes.size, dtype=np.float32)
    else:
        links &= weight != 0
        codes, values = _largest_of_each(codes[links], weight[links])
    low, high = codes // n_nodes, codes % n_nodes
    rows, columns = np.concatenate([low, high]), np.concatenate([high, low])
    entries = np.concatenate([values, values])
    matrix = sp.csr_matrix((entries, (rows, columns)), shape=(n_nodes, n_nodes))
    return canonical_csr("edges", matrix)


def distinct_codes(codes: np.ndarray) -> np.ndarray:
    """Return each code once, in order; codes are at least 0.

    Sorting beats the hashing of ``np.unique``.

    Examples
    --------
    >>> distinct_codes(np.array([3, 1, 3])).tolist()
    [1, 3]
    """
    ordered = np.sort(codes)
    return ordered[np.diff(ordered, prepend=-1) > 0]


def _largest_of_each(codes: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Each code once, with the largest of its values."""
    order = np.lexsort((-values, codes))
    codes, first = np.unique(codes[order], return_index=True)
    return codes, values[order][first]


def upper_pairs(graph: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return rows, columns and weights of the entries above the diagonal, sorted by row."""
    upper = sp.triu(sp.csr_matrix(graph), k=1, format="csr")
    upper.sum_duplicates()
    rows = np.repeat(np.arange(upper.shape[0]), np.diff(upper.indptr))
    return rows, upper.indices.astype(np.int64), upper.data


def check_text(name: str, value: str) -> str:
    """Return text that every format can hold: valid Unicode without NUL."""
    if "\0" in value or any("\ud800" <= c <= "\udfff" for c in value):
        raise InputError(f"{name} must be Unicode text without NUL characters, got {shown(value)}.")
    return value


def check_names(name: str, names: Iterable[str], length: int | None = None) -> tuple[str, ...]:
    """Return distinct, non-empty names, ``length`` of them if given."""
    checked = tuple(check_text(name, str(value)) for value in names)
    if length is not None and len(checked) != length:
        raise InputError(f"{name} must hold {length} names, got {len(checked)}.")
    blank = [place for place, value in enumerate(checked) if not value.strip()]
    if blank:
        raise InputError(f"{name} must not be blank, got blank text at place {blank[0]}.")
    if len(set(checked)) != len(checked):
        seen: set[str] = set()
        twice = next(value for value in checked if value in seen or seen.add(value))  # type: ignore[func-returns-value]
        raise InputError(f"{name} must be distinct, got {shown(twice)} more than once.")
    return checked


def canonical_ids(ids: Any, n_nodes: int) -> np.ndarray:
    """Return distinct ids: int64 where all are whole numbers as written, otherwise text."""
    array = ids if isinstance(ids, np.ndarray) else np.array(list(ids), dtype=object)
    if array.shape != (n_nodes,):
        raise InputError(
            f"ids must hold one id for each of the {n_nodes} nodes, got {array.shape}."
        )
    if array.dtype.kind in "iu" and (array.size == 0 or array.max() < 2**63):
        checked = array.astype(np.int64)
    else:
        checked = ids_from_text([check_text("ids", str(value)) for value in array.tolist()])
    values, counts = np.unique(checked, return_counts=True)
    if checked.dtype.kind == "U" and (checked == "").any():
        raise InputError("ids must not be empty text, got at least one that is.")
    if values.size != n_nodes:
        raise InputError(
            f"ids must be distinct, got {shown(values[counts > 1][0])} more than once. "
            "Remove or merge the repeated rows."
        )
    return read_only(checked)


def ids_from_text(texts: Sequence[str]) -> np.ndarray:
    """Return int64 ids where every text is a whole number in its usual form, else the texts.

    Examples
    --------
    >>> ids_from_text(["7", "10"]).tolist(), ids_from_text(["07", "10"]).tolist()
    ([7, 10], ['07', '10'])
    """
    if texts and all(is_whole_number(text) for text in texts):
        return np.array([int(text) for text in texts], dtype=np.int64)
    return np.array(list(texts), dtype=np.str_)


def is_whole_number(text: str) -> bool:
    """Whether the text is what ``str`` writes for some int64."""
    digits = text[1:] if text[:1] == "-" else text
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 19):
        return False
    return str(int(text)) == text and -(2**63) <= int(text) < 2**63


def sorted_class_names(names: Iterable[str]) -> list[str]:
    """Return distinct names in order: by number where all are whole numbers, else by text."""
    distinct = sorted(set(names))
    if all(is_whole_number(name) for name in distinct):
        distinct.sort(key=int)
    return distinct
