"""Names that come as one option, with commas between."""


def names_of(text: str | None) -> tuple[str, ...] | None:
    """Return the names between commas.

    Examples
    --------
    >>> names_of("cora, citeseer")
    ('cora', 'citeseer')
    """
    if text is None:
        return None
    return tuple(name for part in text.split(",") if (name := part.strip()))
