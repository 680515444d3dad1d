"""Stand-ins for the arrays of a pickle, and the arrays made from them by hand."""

from collections.abc import Iterable
from typing import Any

import numpy as np
import scipy.sparse as sp

from glnn.data.arrays import checked_csr
from glnn.data.files import shown
from glnn.exceptions import DataFormatError

_DTYPES = ("f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8")


class Name:
    """Stands for an admitted name; it can be applied only in the ways written below."""

    def __init__(self, role: str) -> None:
        self.role = role


class Part:
    """Stands for an array, dtype or matrix until all of its bytes are known."""

    def __init__(self, role: str, arguments: tuple[Any, ...]) -> None:
        self.role, self.arguments, self.state = role, arguments, None


def is_whole(values: Iterable[Any]) -> bool:
    """Say whether all values are plain whole numbers."""
    return all(type(value) is int for value in values)


def build_array(part: Part) -> np.ndarray:
    """Build an array from (version, shape, dtype, Fortran order, bytes)."""
    state = part.state
    if part.role != "new_array" or not isinstance(state, tuple) or len(state) != 5:
        raise DataFormatError("an array in a pickle must have five parts of state, got others.")
    _, shape, dtype_part, fortran, raw = state
    dtype = _dtype(dtype_part)
    if (
        not isinstance(shape, tuple)
        or not is_whole(shape)
        or len(shape) > 2
        or min(shape, default=0) < 0
    ):
        raise DataFormatError("an array in a pickle must have one or two dimensions, got others.")
    buffer = raw.encode("latin1") if isinstance(raw, str) else raw
    expected = dtype.itemsize
    for length in shape:
        expected *= length
    if not isinstance(buffer, bytes) or len(buffer) != expected:
        raise DataFormatError(
            f"an array in a pickle must hold the {expected:,} bytes of its shape {shape}, got "
            f"{len(buffer) if isinstance(buffer, bytes) else 'no'} bytes."
        )
    flat = np.frombuffer(buffer, dtype=dtype)
    return flat.reshape(shape, order="F" if fortran is True else "C")


def _dtype(part: Any) -> np.dtype[Any]:
    if not isinstance(part, Part) or part.role != "dtype" or part.arguments[:1] == ():
        raise DataFormatError("an array in a pickle must have a dtype, got none.")
    code = part.arguments[0]
    if code not in _DTYPES:
        raise DataFormatError(
            f"an array in a pickle must hold numbers ({', '.join(_DTYPES)}), got {shown(code)}."
        )
    order = part.state[1] if isinstance(part.state, tuple) and len(part.state) > 1 else "="
    dtype: np.dtype[Any] = np.dtype((order if order in ("<", ">") else "=") + code)
    return dtype


def build_csr(part: Part) -> sp.csr_matrix:
    """Build a CSR matrix from the state that SciPy gives it."""
    state = part.state
    if not isinstance(state, dict):
        raise DataFormatError("a matrix in a pickle must have its arrays, got none.")
    parts = [state.get(key) for key in ("data", "indices", "indptr")]
    shape = state.get("_shape")
    if not all(isinstance(array, Part) for array in parts) or not _is_shape(shape):
        raise DataFormatError("a matrix in a pickle must have data, indices, indptr and shape.")
    return checked_csr(*(build_array(array) for array in parts), shape)


def _is_shape(shape: Any) -> bool:
    return isinstance(shape, tuple) and len(shape) == 2 and is_whole(shape) and min(shape) >= 0
