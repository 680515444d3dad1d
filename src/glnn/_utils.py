"""The checks on what users give: each says what must hold, what came, and what to do."""

import difflib
import html
import importlib
import math
import numbers
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import numpy as np
import scipy.sparse as sp

from glnn.exceptions import InputError, InputTypeError, MissingDependencyError

# --- _validation: The checks on what users give: each says what must hold, what came, and what to

_LARGEST = 1e150
"""Features that are larger have squares and sums of squares beyond double precision."""


def check_choice(name: str, value: object, choices: Iterable[str]) -> str:
    """Return ``value`` if it is one of ``choices``; otherwise say which one was probably meant.

    Examples
    --------
    >>> check_choice("reading", "trace", ["trace", "channel"])
    'trace'
    """
    options = list(choices)
    if isinstance(value, str) and value in options:
        return value
    hint = did_you_mean(str(value), options)
    raise InputError(f"{name} must be one of {', '.join(options)}; got {value!r}.{hint}")


def did_you_mean(word: str, options: Iterable[str]) -> str:
    """Return `` Did you mean 'x'?`` for the nearest option, or nothing if none is near."""
    near = difflib.get_close_matches(word, list(options), n=1, cutoff=0.5)
    return f" Did you mean {near[0]!r}?" if near else ""


def check_number(
    name: str,
    value: object,
    *,
    low: float | int = -math.inf,  # both named: the run-time check takes types literally
    high: float | int = math.inf,
    open_low: bool = False,
) -> float:
    """Return ``value`` as a finite float in ``[low, high]`` (``(low, high]`` if ``open_low``)."""
    lower = f"greater than {low:g}" if open_low else f"at least {low:g}"
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise InputError(f"{name} must be a number, got {value!r}.")
    try:
        number = float(value)
    except OverflowError:  # a whole number of more than 308 digits
        number = math.inf
    too_low = number <= low if open_low else number < low
    if not math.isfinite(number) or too_low or number > high:
        upper = "" if high == math.inf else f" and at most {high:g}"
        raise InputError(f"{name} must be finite, {lower}{upper}; got {number:g}.")
    return number


def check_integer(name: str, value: object, *, low: int, high: int | None = None) -> int:
    """Return ``value`` as an int in ``[low, high]``."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise InputError(f"{name} must be a whole number, got {value!r}.")
    number = int(value)
    if number < low or (high is not None and number > high):
        upper = "" if high is None else f" and at most {high}"
        raise InputError(f"{name} must be at least {low}{upper}; got {number}.")
    return number


def check_array(name: str, values: Any) -> np.ndarray:
    """Return ``values`` as an array; rows of different lengths are refused."""
    try:
        return np.asarray(values)
    except ValueError:
        raise InputError(f"{name} must be an array whose rows all have the same length.") from None


def check_features(name: str, features: Any) -> np.ndarray | sp.csr_matrix:
    """Return finite two-dimensional features as a float array or CSR matrix, at least 1 x 1.

    Sparse input stays sparse. Whole numbers and booleans become float32; float64 stays float64.
    """
    if not sp.issparse(features):
        features = check_array(name, features)
    if features.ndim != 2:
        raise InputError(
            f"{name} must have two dimensions (nodes x features), got {features.ndim}. "
            "Reshape one column with X.reshape(-1, 1)."
        )
    if sp.issparse(features):
        matrix = sp.csr_matrix(features)
        is_canonical = matrix.has_canonical_format
        if not is_canonical:
            matrix = matrix.copy()  # summing works in place: not on the caller's
        data = _as_float(name, matrix.data)
        matrix = sp.csr_matrix((data, matrix.indices, matrix.indptr), shape=matrix.shape)
        matrix.has_canonical_format = is_canonical
        matrix.sum_duplicates()
    else:
        matrix = data = _as_float(name, features)
    if 0 in matrix.shape:
        raise InputError(
            f"{name} must have at least one row and one column, got {matrix.shape[0]} sample(s) "
            f"and {matrix.shape[1]} feature(s) (shape={matrix.shape}) while a minimum of 1 is "
            "required. Without features, give an identity matrix."
        )
    if not np.isfinite(data).all():
        n_bad = int((~np.isfinite(data)).sum())
        raise InputError(
            f"{name} must be finite, got {n_bad} NaN or infinite values. "
            "Impute or drop them, for instance with sklearn.impute.SimpleImputer."
        )
    if data.dtype == np.float32:  # which has no such numbers
        return matrix
    largest = max(float(data.max(initial=0)), -float(data.min(initial=0)))
    if largest > _LARGEST:
        raise InputError(
            f"{name} must have values of at most {_LARGEST:g} in size, whose squares are numbers "
            f"still; got {largest:g}. Divide the column, or take its logarithm."
        )
    return matrix


def _as_float(name: str, values: np.ndarray) -> np.ndarray:
    """Floats as they are; whole numbers, booleans and half precision as float32."""
    if values.dtype.kind == "O":
        try:
            values = values.astype(np.float64)
        except (TypeError, ValueError) as error:
            kind = InputTypeError if isinstance(error, TypeError) else InputError
            raise kind(
                f"{name} must be numbers, got an array of Python objects: each argument must be "
                "a string of digits or a real number. "
                "Encode text and categories first, for instance with OneHotEncoder."
            ) from None
    if values.dtype.kind not in "fiub":
        raise InputError(
            f"{name} must be real numbers, got dtype {values.dtype}. "
            "Encode text, dates and complex values first."
        )
    if values.dtype == np.float64:
        return values
    return values.astype(np.float32, copy=False)


def check_indices(name: str, indices: Any, n_nodes: int) -> np.ndarray:
    """Return distinct node numbers from a boolean mask of length ``n_nodes`` or a list of ids."""
    array = check_array(name, indices)
    if array.dtype == bool:
        if array.shape != (n_nodes,):
            raise InputError(
                f"{name} as a mask must have one entry for each of the {n_nodes} nodes, "
                f"got shape {array.shape}."
            )
        return np.flatnonzero(array)
    if array.size == 0:
        return np.empty(0, dtype=np.int64)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise InputError(
            f"{name} must be a list of node numbers or a boolean mask, "
            f"got dtype {array.dtype} and shape {array.shape}."
        )
    if array.min() < 0 or array.max() >= n_nodes:
        raise InputError(
            f"{name} must hold node numbers in [0, {n_nodes}), got {array.min()} to {array.max()}."
        )
    if np.unique(array).size != array.size:
        raise InputError(f"{name} must name each node once, got repeated numbers.")
    return array.astype(np.int64)


# --- _display: How records show themselves: one short line, and a small table in a notebook


class Shown:
    """Mixed into a record, shows its ``_facts`` instead of all its arrays."""

    def _facts(self) -> Mapping[str, str]:
        """Return what to show, by name; the first value is the title."""
        raise NotImplementedError

    def __repr__(self) -> str:
        title, *rest = self._facts().items()
        facts = ", ".join(in_words(name, value) for name, value in rest)
        return f"{type(self).__name__}({title[1]}: {facts})"

    def _repr_html_(self) -> str:
        return html_table(self._facts())


def in_words(name: str, value: str) -> str:
    """Return a fact as a line has it: a number before its name, any other value after it.

    Examples
    --------
    >>> in_words("edges", "1,200"), in_words("edges", "none"), in_words("problem", "solved")
    ('1,200 edges', 'no edges', 'problem solved')
    """
    if value == "none":
        return f"no {name}"
    return f"{value} {name}" if value[:1].isdigit() else f"{name} {value}"


def html_table(facts: Mapping[str, object]) -> str:
    """Return facts as the rows of an HTML table, escaped.

    Examples
    --------
    >>> html_table({"a < b": 3})
    '<table><tr><th>a &lt; b</th><td>3</td></tr></table>'
    """
    rows = "".join(
        f"<tr><th>{html.escape(name)}</th><td>{html.escape(str(value))}</td></tr>"
        for name, value in facts.items()
    )
    return f"<table>{rows}</table>"


# --- _threads: Work of NumPy on several threads: it lets others run while it counts

_Item = TypeVar("_Item")
_Found = TypeVar("_Found")

_WORTH_A_THREAD = 2**16
"""Numbers an item must have for its work to take longer than handing it over."""

_BLOCK = 2**18
"""Numbers of a block of rows: what is in between stays in the processor's cache."""


def mapped(
    function: Callable[[_Item], _Found], items: Sequence[_Item], n_numbers: int
) -> list[_Found]:
    """Return the function of each item, in order, on as many threads as PyTorch uses.

    Parameters
    ----------
    function, items
        What is called, and with what.
    n_numbers
        How many numbers it looks at each time; with few everything stays in this thread.

    Examples
    --------
    >>> mapped(lambda k: k**2, [1, 2, 3], n_numbers=10**6)
    [1, 4, 9]
    """
    import torch  # not at import time: data are read without it

    n_threads = min(torch.get_num_threads(), len(items))
    if n_threads < 2 or n_numbers < _WORTH_A_THREAD:
        return [function(item) for item in items]
    with ThreadPoolExecutor(n_threads) as threads:
        return list(threads.map(function, items))


def by_rows(function: Callable[..., np.ndarray], *arrays: np.ndarray) -> np.ndarray:
    """Return a function of arrays that takes each row by itself, block by block on threads.

    Parameters
    ----------
    function
        What some rows of each array become: one array with as many rows.
    arrays
        All rows, as many of each.

    Examples
    --------
    >>> by_rows(lambda rows: rows.sum(1, keepdims=True), np.eye(2))
    array([[1.],
           [1.]])
    """
    n_rows, width = len(arrays[0]), sum(array.shape[1] for array in arrays)
    n_block = max(1, _BLOCK // max(1, width))
    first = function(*(array[:n_block] for array in arrays))
    if n_rows <= n_block:
        return first
    found = np.empty((n_rows, *first.shape[1:]), first.dtype)
    found[:n_block] = first

    def write(start: int) -> None:
        block = slice(start, start + n_block)
        found[block] = function(*(array[block] for array in arrays))

    mapped(write, range(n_block, n_rows, n_block), n_numbers=n_block * width)
    return found


# --- optional: Packages that only some formats need, imported when they are

_EXTRAS = {"pyarrow": "tables", "openpyxl": "tables", "torch_geometric": "pyg", "optuna": "tune"}


def need(module: str) -> Any:
    """Return an optional module, or say which extra of glnn brings it.

    Examples
    --------
    >>> need("json").dumps([1])
    '[1]'
    """
    package = module.partition(".")[0]
    try:
        with warnings.catch_warnings():  # PyTorch Geometric scripts functions at import
            warnings.filterwarnings("ignore", message=r".*torch\.jit", category=DeprecationWarning)
            return importlib.import_module(module)
    except ImportError as error:
        extra = _EXTRAS.get(package, package)
        raise MissingDependencyError(
            f"this needs the package {package}, which is not installed. "
            f"Install it with: pip install 'glnn[{extra}]'"
        ) from error
