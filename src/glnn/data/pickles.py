"""A reader of old pickles that cannot run anything.

It does not use :mod:`pickle`. The byte codes are walked with :mod:`pickletools`, which only
decodes, and the few that data files need build plain containers and inert stand-ins. Arrays and
sparse matrices are then made here from their bytes, after their sizes have been checked. A name
or a byte code that is not listed ends the reading.
"""

import pickletools
from collections.abc import Callable
from typing import Any

from glnn.data.files import shown, without_warnings
from glnn.data.pickle_parts import Name, Part, build_array, build_csr, is_whole
from glnn.exceptions import DataFormatError

_ARRAY_MODULES = ("numpy.core.multiarray", "numpy._core.multiarray")
_CSR_MODULES = ("scipy.sparse.csr", "scipy.sparse._csr")
_ADMITTED = {
    **{(module, "_reconstruct"): "new_array" for module in _ARRAY_MODULES},
    **{(module, "csr_matrix"): "csr" for module in _CSR_MODULES},
    ("numpy", "ndarray"): "ndarray",
    ("numpy", "dtype"): "dtype",
    ("collections", "defaultdict"): "dict",
    ("__builtin__", "list"): "list",
    ("builtins", "list"): "list",
    ("_codecs", "encode"): "bytes",
    ("__builtin__", "bytes"): "bytes",  # how protocol 2 writes no bytes at all
}
_IGNORED = ("PROTO", "FRAME")
_CONSTANTS: dict[str, Callable[[], Any]] = {
    "NONE": lambda: None,
    "NEWTRUE": lambda: True,
    "NEWFALSE": lambda: False,
    "EMPTY_TUPLE": tuple,
    "EMPTY_LIST": list,
    "EMPTY_DICT": dict,
}
_LITERALS = frozenset(
    {
        "BININT",
        "BININT1",
        "BININT2",
        "INT",
        "LONG",
        "LONG1",
        "BINFLOAT",
        "STRING",
        "SHORT_BINSTRING",
        "BINSTRING",
        "UNICODE",
        "BINUNICODE",
        "SHORT_BINUNICODE",
        "SHORT_BINBYTES",
        "BINBYTES",
        "BINBYTES8",
    }
)
_TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}


class _Mark:
    """The marker that byte codes put on the stack."""


def read_pickle(raw: bytes) -> Any:
    """Return the arrays, matrices and containers of a pickle; refuse everything else.

    Parameters
    ----------
    raw
        The bytes of a pickle of NumPy arrays, CSR matrices, lists, tuples, dicts, numbers, text.

    Returns
    -------
    object
        The same data, built without running any code that the pickle names.

    Raises
    ------
    DataFormatError
        If a name or byte code is not admitted, or the sizes do not fit the bytes.
    """
    machine = _Machine()
    with without_warnings():
        for opcode, argument, _ in pickletools.genops(raw):
            if opcode.name == "STOP":
                return _finish(machine.only_value())
            machine.step(opcode.name, argument)
    raise DataFormatError("a pickle must end with its stop code, got none.")


class _Machine:
    """Stack and memo of the byte codes that data files need."""

    def __init__(self) -> None:
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}

    def step(self, code: str, argument: Any) -> None:
        if code in _LITERALS:
            self.stack.append(argument)
        elif code in _CONSTANTS:
            self.stack.append(_CONSTANTS[code]())
        elif code == "MARK":
            self.stack.append(_Mark)
        elif code in _TUPLES:
            self.stack.append(tuple(self.take(_TUPLES[code])))
        elif code == "TUPLE":
            self.stack.append(tuple(self.above_mark()))
        elif code in ("GLOBAL", "STACK_GLOBAL"):
            self.stack.append(_admit(self.global_name(code, argument)))
        elif code in ("REDUCE", "NEWOBJ"):
            function, arguments = self.take(2)
            self.stack.append(_apply(function, arguments))
        elif code == "BUILD":
            self.build()
        elif not self.remember(code, argument) and not self.fill(code) and code not in _IGNORED:
            raise DataFormatError(
                f"a pickle must hold arrays and plain containers only, got byte code {code}. "
                "Nothing was run."
            )

    def remember(self, code: str, argument: Any) -> bool:
        """Codes of the memo: a dict, so that a huge number takes no memory."""
        if code in ("PUT", "BINPUT", "LONG_BINPUT"):
            self.memo[argument] = self.stack[-1]
        elif code == "MEMOIZE":
            self.memo[len(self.memo)] = self.stack[-1]
        elif code in ("GET", "BINGET", "LONG_BINGET"):
            self.stack.append(self.memo[argument])
        else:
            return False
        return True

    def fill(self, code: str) -> bool:
        """Codes that add to a list or dict."""
        if code == "APPEND":
            (value,) = self.take(1)
            _container(self.stack[-1], list).append(value)
        elif code == "APPENDS":
            values = self.above_mark()
            _container(self.stack[-1], list).extend(values)
        elif code in ("SETITEM", "SETITEMS"):
            values = self.take(2) if code == "SETITEM" else self.above_mark()
            if len(values) % 2:
                raise DataFormatError("a pickle must pair keys with values, got one without.")
            _container(self.stack[-1], dict).update(zip(values[::2], values[1::2]))
        else:
            return False
        return True

    def take(self, count: int) -> list[Any]:
        if len(self.stack) < count:
            raise DataFormatError("a pickle must not empty its stack, got too few values.")
        taken = self.stack[-count:]
        if any(value is _Mark for value in taken):
            raise DataFormatError("a pickle must close what it opens, got a marker as a value.")
        del self.stack[-count:]
        return taken

    def above_mark(self) -> list[Any]:
        for position in range(len(self.stack) - 1, -1, -1):
            if self.stack[position] is _Mark:
                values = self.stack[position + 1 :]
                del self.stack[position:]
                return values
        raise DataFormatError("a pickle must open what it closes, got no marker.")

    def global_name(self, code: str, argument: Any) -> tuple[Any, Any]:
        if code == "STACK_GLOBAL":
            module, name = self.take(2)
            return module, name
        module, _, name = str(argument).partition(" ")
        return module, name

    def build(self) -> None:
        (state,) = self.take(1)
        part = self.stack[-1]
        if not isinstance(part, Part):
            raise DataFormatError("a pickle must give state to arrays only, got another object.")
        part.state = state

    def only_value(self) -> Any:
        if len(self.stack) != 1 or self.stack[0] is _Mark:
            raise DataFormatError("a pickle must hold one object, got another number of them.")
        return self.stack[0]


def _admit(name: tuple[Any, Any]) -> Name:
    if not all(isinstance(part, str) for part in name) or name not in _ADMITTED:
        raise DataFormatError(
            f"a pickle may name NumPy and SciPy arrays only, got {shown('.'.join(map(str, name)))}."
            " Nothing was run; do not trust this file."
        )
    return Name(_ADMITTED[name])


def _container(value: Any, kind: type) -> Any:
    if type(value) is not kind:
        raise DataFormatError(f"a pickle must fill a {kind.__name__}, got another object.")
    return value


def _apply(function: Any, arguments: Any) -> Any:
    role = function.role if isinstance(function, Name) else None
    if role is None or type(arguments) is not tuple:
        raise DataFormatError("a pickle may call admitted names only, got another object.")
    if role == "dict":
        return {}
    if role == "list" and not arguments:
        return []
    if role == "bytes" and not arguments:
        return b""
    if role == "bytes" and len(arguments) == 2 and arguments[1] == "latin1":
        return str(arguments[0]).encode("latin1")
    if role in ("new_array", "dtype", "csr"):
        return Part(role, arguments)
    raise DataFormatError(f"a pickle may not call {role} with these arguments.")


def _finish(value: Any) -> Any:
    """Replace stand-ins by arrays; admit numbers, lists of whole numbers and dicts of such lists.

    A list that is named twice is refused: with such references a small file could describe
    more than any memory holds.
    """
    if isinstance(value, Part):
        return build_csr(value) if value.role == "csr" else build_array(value)
    lists = list(value.values()) if isinstance(value, dict) else [value]
    if not all(type(item) is list and is_whole(item) for item in lists):
        raise DataFormatError("a pickle must hold an array, a matrix, or lists of whole numbers.")
    if len({id(item) for item in lists}) != len(lists):
        raise DataFormatError("a pickle must hold each list once, got one list named twice.")
    return value
