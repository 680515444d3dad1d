"""Colours that people with any colour vision can tell apart, and marks for further classes."""

COLOURS = (
    "#332288",
    "#E8601C",
    "#117733",
    "#88CCEE",
    "#AA4499",
    "#DDAA33",
    "#882255",
    "#44AA99",
    "#999999",
    "#4477AA",
)
MARKS = ("o", "s", "^", "D", "v", "P")
INK, PALE = "#22252B", "#B8BDC6"


def colour_and_mark(number: int) -> tuple[str, str]:
    """Return the colour and mark of a class; marks change when the colours are used up.

    Examples
    --------
    >>> colour_and_mark(0)[1], colour_and_mark(10)[1]
    ('o', 's')
    """
    return COLOURS[number % len(COLOURS)], MARKS[number // len(COLOURS) % len(MARKS)]
