"""How to read a table: one value for Python, the command line and saved runs."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from glnn._validation import check_choice, did_you_mean
from glnn.data.table_text import Decimal, TableFormat
from glnn.exceptions import InputError

OnUnknown = Literal["error", "drop"] | str
Encode = Literal["error", "onehot", "auto"] | str
Missing = Literal["error", "median", "indicator"] | str
# Each admits any text: what the command line brings is checked below, with a line of its own.


@dataclass(frozen=True)
class TableOptions:
    """How the columns of a table are used.

    Parameters
    ----------
    id_column
        The column of ids; by default ``id``, else a column named like an id (``customer_id``)
        that has a value of its own in every row, else rows are numbered from 0.
    label_column
        The column of labels; by default ``label`` if there is one.
    on_unknown
        What to do with labels and edges of ids that have no features: ``"error"`` or ``"drop"``.
    encode
        Text columns: ``"error"`` refuses them; ``"onehot"`` gives each value (at most 100) a
        column of 0 and 1; ``"auto"`` does so up to 30 values, gives other text the share of rows
        that hold the same value, and turns dates into numbers.
    missing
        Gaps in columns of numbers and dates: ``"error"`` refuses them, ``"median"`` fills in the
        column's median, ``"indicator"`` also adds a column of 0 and 1 that marks the gaps.
    dates
        Turn columns of dates into numbers: days since the column's first date.
    features, drop
        Names or patterns (``"x*"``) of the columns to use, and of those to leave out.
    drop_constant
        Leave out columns that hold one value only.
    needs_label
        Refuse a table without a label column, and offer the column that looks most like one.
    delimiter, decimal, encoding
        See :class:`glnn.data.table_text.TableFormat`.
    """

    id_column: str | None = None
    label_column: str | None = None
    on_unknown: OnUnknown = "error"
    encode: Encode = "error"
    missing: Missing = "error"
    dates: bool = False
    features: Sequence[str] = ()
    drop: Sequence[str] = ()
    drop_constant: bool = False
    needs_label: bool = False
    delimiter: str | None = None
    decimal: Decimal | None = None
    encoding: str | None = None

    def __post_init__(self) -> None:
        check_choice("on_unknown", self.on_unknown, ("error", "drop"))
        check_choice("encode", self.encode, ("error", "onehot", "auto"))
        check_choice("missing", self.missing, ("error", "median", "indicator"))
        object.__setattr__(self, "features", tuple(self.features))
        object.__setattr__(self, "drop", tuple(self.drop))
        _ = self.form

    @property
    def form(self) -> TableFormat:
        """How the text of the table is written."""
        return TableFormat(self.delimiter, self.decimal, self.encoding)

    def changed(self, **changes: Any) -> "TableOptions":
        """Return the options with some fields changed; an unknown name is refused."""
        known = [field.name for field in dataclasses.fields(self)]
        for name in changes:
            if name not in known:
                raise InputError(
                    f"options of a table must be among {', '.join(known)}; got {name!r}."
                    f"{did_you_mean(name, known)}"
                )
        return dataclasses.replace(self, **changes)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON."""
        return {**dataclasses.asdict(self), "features": [*self.features], "drop": [*self.drop]}


DEFAULT = TableOptions()
