"""A first pass over XML that refuses what could grow without end or reach for other files."""

from typing import Any
from xml.parsers import expat

from glnn.exceptions import DataFormatError

MAX_DEPTH = 32
_BLOCK = 2**16


def refuse_declarations(file: Any, what: str, start: Any = None) -> None:
    """Walk through an XML file; refuse document types, entities and deep nesting.

    Parameters
    ----------
    file
        The open file.
    what
        What it should be, for messages: ``"a GraphML file"``.
    start
        Called with the tag, its attributes and its depth at the start of every element. Without
        it the pass ends at the first element, as declarations stand before it.
    """
    depth = 0

    def refuse(*_: Any) -> None:
        raise DataFormatError(
            f"{what} must have no document type or entity declarations, got one. "
            "Remove the <!DOCTYPE ...> line."
        )

    def open_element(tag: str, attributes: dict[str, str]) -> None:
        nonlocal depth
        depth += 1
        if depth > MAX_DEPTH:
            raise DataFormatError(f"{what} must nest at most {MAX_DEPTH} deep.")
        if start is not None:
            start(tag.rpartition(":")[2], attributes, depth)

    def close_element(_: str) -> None:
        nonlocal depth
        depth -= 1

    parser = expat.ParserCreate()
    parser.StartDoctypeDeclHandler = refuse
    parser.EntityDeclHandler = refuse
    parser.StartElementHandler = open_element
    parser.EndElementHandler = close_element
    while block := file.read(_BLOCK):
        parser.Parse(block, False)
        if depth and start is None:
            return
    parser.Parse(b"", True)
