"""Helpers for the whole library.

Checks of user input (their errors say what must hold, what was given and what to do), threads, and
imports of optional packages.
"""

import difflib
import importlib
import math
import numbers
import warnings
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils import gen_batches

from glnn.exceptions import InputError, InputTypeError, MissingDependencyError

# Checks of user input

_MAX_FEATURE = 1e150  # sums of squares of larger values overflow in double precision


def check_choice(name: str, value: object, choices: Iterable[str]) -> str:
    """Return ``value`` if it is one of ``choices``; the error suggests the nearest one."""
    options = list(choices)
    if isinstance(value, str) and value in options:
        return value
    hint = did_you_mean(str(value), options)
    raise InputError(f"{name} must be one of {', '.join(options)}; got {value!r}.{hint}")


def did_you_mean(word: str, options: Iterable[str]) -> str:
    """Return `` Did you mean 'x'?`` for the nearest option, or an empty text if none is near."""
    known = {option.casefold(): option for option in options}
    near = difflib.get_close_matches(word.casefold(), known, n=1, cutoff=0.5)
    return f" Did you mean {known[near[0]]!r}?" if near else ""


def check_number(
    name: str,
    value: object,
    *,
    low: float | int = -math.inf,  # int is named for the run-time type checker
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
    """Return ``values`` as an array; rows of different lengths are an error."""
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
        given = sp.csr_matrix(features)
        parts = (_as_float(name, given.data), given.indices, given.indptr)
        is_shared = given.has_canonical_format  # otherwise sum_duplicates would change the input
        matrix = sp.csr_matrix(parts, shape=given.shape, copy=not is_shared)
        matrix.sum_duplicates()
        data = matrix.data
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
    largest = max(float(data.max(initial=0)), -float(data.min(initial=0)))
    if largest > _MAX_FEATURE:
        raise InputError(
            f"{name} must have values of at most {_MAX_FEATURE:g} in size, so that their squares "
            f"do not overflow; got {largest:g}. Divide the column, or take its logarithm."
        )
    return matrix


def _as_float(name: str, values: np.ndarray) -> np.ndarray:
    """Return float32 and float64 unchanged; integers, booleans and float16 as float32."""
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


def check_weights(name: str, matrix: sp.csr_matrix) -> sp.csr_matrix:
    """Return a copy in float64 without stored zeros; weights must be finite and at least 0."""
    if matrix.dtype.kind not in "fiub":
        raise InputError(f"{name} must have real weights, got dtype {matrix.dtype}.")
    matrix = matrix.astype(np.float64)
    matrix.sum_duplicates()
    if not np.isfinite(matrix.data).all():
        raise InputError(f"{name} must have finite weights, got NaN or infinity.")
    if matrix.nnz and matrix.data.min() < 0:
        raise InputError(
            f"{name} must have weights of at least 0, got {matrix.data.min():g}. "
            "Drop negative edges or take their absolute value."
        )
    matrix.eliminate_zeros()
    return matrix


def is_symmetric(matrix: sp.csr_matrix) -> bool:
    """Return whether a square CSR matrix with sorted and distinct columns is symmetric."""
    flipped = sp.csr_matrix(matrix.T)
    parts = (
        (getattr(m, part) for m in (matrix, flipped)) for part in ("indptr", "indices", "data")
    )
    return all(np.array_equal(*pair) for pair in parts)


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


def check_device(device: object) -> str:
    """Return the name of a device after checking that PyTorch can use it on this machine."""
    import torch

    here = ["cpu", *(f"cuda:{number}" for number in range(torch.cuda.device_count()))]
    name = str(device)
    if name not in here and not (name == "cuda" and len(here) > 1):
        raise InputError(f"device must be one of this machine ({', '.join(here)}), got {device!r}.")
    return name


# Threads

# Below this many nodes, several threads spend more time on synchronization than on computing.
SINGLE_THREAD_NODES = 10_000


@contextmanager
def limit_threads(n_nodes: int, most: int | None = None) -> Iterator[None]:
    """Use one thread for a small graph inside the block, else ``most`` or as many as before.

    This holds for PyTorch and for the libraries behind NumPy and scikit-learn.
    """
    import torch
    from threadpoolctl import threadpool_limits

    before = torch.get_num_threads()
    wanted = 1 if n_nodes < SINGLE_THREAD_NODES else most or before
    torch.set_num_threads(wanted)
    try:
        with threadpool_limits(wanted):
            yield
    finally:
        torch.set_num_threads(before)


# NumPy work on threads: NumPy releases the GIL

_BLOCK_SIZE = 2**18  # numbers in a block of rows: temporary arrays stay in the processor's cache


def map_row_blocks(function: Callable[[np.ndarray], np.ndarray], rows: np.ndarray) -> np.ndarray:
    """Apply a row-wise function to a matrix, by blocks of rows on as many threads as PyTorch uses.

    ``function`` takes some rows and returns an array with as many.
    """
    import torch  # not at import time: reading data does not need it

    n_block = max(1, _BLOCK_SIZE // max(1, rows.shape[1]))
    if len(rows) <= n_block:
        return function(rows)
    first = function(rows[:1])
    found = np.empty((len(rows), *first.shape[1:]), first.dtype)

    def write(block: slice) -> None:
        found[block] = function(rows[block])

    with ThreadPoolExecutor(torch.get_num_threads()) as threads:
        list(threads.map(write, gen_batches(len(rows), n_block)))
    return found


# Optional packages

EXTRAS = {  # optional packages, and the extra of glnn that installs each
    "bokeh": "report",
    "matplotlib": "report",
    "pyarrow": "tables",
    "openpyxl": "tables",
    "torch_geometric": "pyg",
    "optuna": "tune",
    "starlette": "studio",
    "uvicorn": "studio",
    "anywidget": "notebook",
}


def install_hint(package: str) -> str:
    """Return the command that installs an optional package, also for a copy of the repository."""
    extra = EXTRAS.get(package, package)
    return f"pip install 'glnn[{extra}]' (in a copy of the repository: pip install '.[{extra}]')"


def import_optional(module: str) -> Any:
    """Import an optional module; the error names the extra of glnn that installs it."""
    package = module.split(".")[0]
    try:
        with warnings.catch_warnings():  # PyTorch Geometric scripts functions at import
            warnings.filterwarnings("ignore", message=r".*torch\.jit", category=DeprecationWarning)
            return importlib.import_module(module)
    except ImportError as error:
        raise MissingDependencyError(
            f"this needs the package {package}, which is not installed. "
            f"Install it with: {install_hint(package)}"
        ) from error
