"""Which column of a table is what: ids, labels, split, features."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

import pandas as pd

from glnn._validation import did_you_mean
from glnn.data.cells import as_numbers, stripped
from glnn.data.files import shown
from glnn.data.node_data import SPLIT_KEYS
from glnn.data.options import TableOptions
from glnn.exceptions import DataFormatError, InputError

_LIKE_AN_ID = re.compile(r"(.*[\s_.-])?([iI][dD]|[uU][uU][iI][dD]|[gG][uU][iI][dD])|.*[a-z]I[dD]")
_LIKE_A_LABEL = re.compile(
    r"(class|target|outcome|status|group|category|species|diagnosis|churn(ed)?|y|type|kind)"
    r"|.*[\s_.-](class|label|target|status|category|group|type)"
)
_MAX_CLASSES = 30

Column = Callable[[str], pd.Series]


@dataclass(frozen=True)
class ColumnPlan:
    """What each column of a table is for.

    ``id``, ``label`` and ``split`` are ``None`` where there is no such column; ``notes`` tells
    what was decided without being asked.
    """

    id: str | None
    label: str | None
    split: str | None
    features: tuple[str, ...]
    notes: tuple[str, ...] = ()

    @property
    def others(self) -> tuple[str | None, ...]:
        """The columns that are no features and need no word."""
        return (self.id, self.label, self.split)


def text_columns(names: Sequence[str], options: TableOptions) -> set[str]:
    """Return the columns that are read as text whatever they hold."""
    wanted = {options.id_column, options.label_column, "label", "split"}
    return {name for name in names if name in wanted or _LIKE_AN_ID.fullmatch(name)}


def plan_columns(
    where: str, names: Sequence[str], column: Column, options: TableOptions, *, own_labels: bool
) -> ColumnPlan:
    """Say what each column is for.

    Parameters
    ----------
    where
        The table, for messages.
    names
        Its columns.
    column
        Returns the column of a name.
    options
        What the user asked for.
    own_labels
        Whether the labels stand in this table; ``False`` if they come from another file.
    """
    like_ids = [n for n in names if _LIKE_AN_ID.fullmatch(n) and _all_different(column(n))]
    id_column = find_column(where, names, options.id_column, "id", "the id column")
    notes = []
    if id_column is None and like_ids and options.label_column != like_ids[0]:
        id_column = like_ids[0]
        notes.append(f"ids: taken from the column {shown(id_column)}")
    wanted = options.label_column if own_labels else None
    label = find_column(where, names, wanted, "label", "the label column")
    if not own_labels and (label is not None or options.label_column in names):
        raise InputError(
            f"labels must come from one file, got a label column in {where} and a labels file. "
            "Remove one of them."
        )
    if id_column is not None and id_column == label:
        raise InputError(f"ids and labels must be two columns, got {shown(id_column)} twice.")
    split = "split" if "split" in names and _is_split(column("split")) else None
    rest = [name for name in names if name not in (id_column, label, split)]
    features = _chosen(where, rest, options)
    if not options.features:
        left = [name for name in features if name in like_ids]
        features = tuple(name for name in features if name not in left)
        notes += [f"features: left out {shown(name)}, another id in every row" for name in left]
    if not features:
        raise DataFormatError(f"{where} must have at least one feature column, got none.")
    return ColumnPlan(id_column, label, split, features, tuple(notes))


def find_column(
    where: str, names: Sequence[str], wanted: str | None, usual: str, what: str
) -> str | None:
    """Return the wanted column, or the usual one if none was asked for and it is there."""
    if wanted is None:
        return usual if usual in names else None
    if wanted not in names:
        raise InputError(
            f"{what} must be a column of {where}, got {shown(wanted)}.{_listed(names)}"
            f"{did_you_mean(wanted, names)}"
        )
    return wanted


def likely_label(names: Sequence[str], column: Column) -> str | None:
    """Return the column that looks most like labels, or nothing if none does.

    It has between 2 and 30 different values; a telling name, text and gaps speak for it.
    """
    best: tuple[int, str] | None = None
    for place, name in enumerate(names):
        cells = [cell for cell in stripped(column(name)) if cell]
        n_values = len(set(cells))
        if _LIKE_AN_ID.fullmatch(name) or not 2 <= n_values <= min(_MAX_CLASSES, len(cells) // 2):
            continue
        is_named = _LIKE_A_LABEL.fullmatch(name.lower()) is not None
        is_text = as_numbers(column(name)) is None
        has_gaps = len(cells) < len(column(name))
        score = 4 * is_named + 2 * is_text + has_gaps + (place == len(names) - 1)
        if score >= 2 and (best is None or score > best[0]):
            best = (score, name)
    return None if best is None else best[1]


def _chosen(where: str, names: Sequence[str], options: TableOptions) -> tuple[str, ...]:
    """Return the columns that the patterns choose, in the order of the table."""
    kept = _matching(where, names, options.features, "features") if options.features else set(names)
    kept -= _matching(where, names, options.drop, "drop")
    return tuple(name for name in names if name in kept)


def _matching(where: str, names: Sequence[str], patterns: Sequence[str], option: str) -> set[str]:
    found: set[str] = set()
    for pattern in patterns:
        hits = {n for n in names if n == pattern or fnmatchcase(n, pattern)}
        if not hits:
            raise InputError(
                f"{option} must name columns of {where}, got {shown(pattern)}, which fits none."
                f"{_listed(names)}{did_you_mean(pattern, names)}"
            )
        found |= hits
    return found


def _listed(names: Sequence[str]) -> str:
    more = ", ..." if len(names) > 8 else ""
    return f" Its columns are {', '.join(map(shown, names[:8]))}{more}."


def _all_different(column: pd.Series) -> bool:
    return bool(column.is_unique and not column.isna().any() and not (column == "").any())


def _is_split(column: pd.Series) -> bool:
    return {"", *SPLIT_KEYS}.issuperset(stripped(column))
