"""Tables as Markdown."""

from collections.abc import Iterable, Sequence


def markdown_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    r"""Return a Markdown table; bars in cells are escaped.

    Examples
    --------
    >>> print(markdown_table(["a", "b"], [["1", "x|y"]]))
    | a | b |
    |---|---|
    | 1 | x\|y |
    """
    lines = [list(header), *(list(row) for row in rows)]
    cells = [[" ".join(cell.replace("|", "\\|").split()) for cell in line] for line in lines]
    printed = [f"| {' | '.join(line)} |" for line in cells]
    return "\n".join([printed[0], "|" + "---|" * len(header), *printed[1:]])
