"""The options of ``glnn fit`` and ``glnn data``, each with the words of its help."""

import functools
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

_TABLE, _METHOD, _OUTPUT = "Your own table", "Method", "Output"

Name = Annotated[
    str,
    typer.Argument(
        metavar="NAME|FILE",
        help="A data set (digits, wine, breast_cancer, blobs, block_model; cora, citeseer, pubmed, "
        "terrorattack, terroristsrel) or a file (.csv, .tsv, .xlsx, .parquet, .npz, .graphml, "
        ".gexf).",
        show_default=False,
    ),
]
LabelFile = Annotated[
    Path | None,
    typer.Option(
        "--labels", help="Table of ids and labels, if not in FILE.", rich_help_panel=_TABLE
    ),
]
GraphFile = Annotated[
    Path | None,
    typer.Option(
        "--graph", help="Edge list: source, target, perhaps weight.", rich_help_panel=_TABLE
    ),
]
IdColumn = Annotated[
    str | None,
    typer.Option("--id", help="Column of ids; 'id' if there is one.", rich_help_panel=_TABLE),
]
LabelColumn = Annotated[
    str | None,
    typer.Option(
        "--label",
        help="Column of labels; 'label' if there is one. Empty cells are to be found.",
        rich_help_panel=_TABLE,
    ),
]
OnUnknown = Annotated[
    str,
    typer.Option(
        help="Labels and edges of ids that FILE lacks: error or drop.", rich_help_panel=_TABLE
    ),
]
Encode = Annotated[
    str,
    typer.Option(
        help="Columns of text: error, onehot, or auto (one-hot where values are few, else how "
        "often a value occurs; dates become numbers).",
        rich_help_panel=_TABLE,
    ),
]
Missing = Annotated[
    str,
    typer.Option(
        help="Gaps among numbers: error, median, or indicator (median and a column that marks "
        "the gaps).",
        rich_help_panel=_TABLE,
    ),
]
Dates = Annotated[
    bool,
    typer.Option("--dates", help="Turn columns of dates into numbers.", rich_help_panel=_TABLE),
]
Features = Annotated[
    list[str] | None,
    typer.Option(
        help="Columns to use: names or patterns such as 'x*', with commas or given repeatedly.",
        rich_help_panel=_TABLE,
    ),
]
Drop = Annotated[
    list[str] | None,
    typer.Option(help="Columns to leave out, in the same way.", rich_help_panel=_TABLE),
]
Delimiter = Annotated[
    str | None,
    typer.Option(help="Between cells; else found out (, ; tab |).", rich_help_panel=_TABLE),
]
Decimal = Annotated[
    str | None,
    typer.Option(help="Decimal mark: . or , ; else found out.", rich_help_panel=_TABLE),
]
Encoding = Annotated[
    str | None,
    typer.Option(help="Of the text, such as cp1252; else UTF-8.", rich_help_panel=_TABLE),
]
LabelsPerClass = Annotated[
    int | None,
    typer.Option(
        help="Train on this many labels of each class and test on all others. Without it: the "
        "published split; 20 a class for data that come with glnn; every label of your own table.",
        rich_help_panel=_METHOD,
    ),
]
NoGraph = Annotated[
    bool, typer.Option("--no-graph", help="Ignore a given graph.", rich_help_panel=_METHOD)
]
Preset = Annotated[
    str,
    typer.Option(
        help="default (our best), paper (the paper's terms, solved exactly) or literal (the "
        "paper's optimiser as printed).",
        rich_help_panel=_METHOD,
    ),
]
Head = Annotated[
    str | None,
    typer.Option(
        help="Network: gcn, propagation, linear or hops; else the preset's and its rivals.",
        rich_help_panel=_METHOD,
    ),
]
Neighbors = Annotated[
    int | None,
    typer.Option(
        "--n-neighbors", help="Mean number of learned neighbours.", rich_help_panel=_METHOD
    ),
]
Epochs = Annotated[
    int | None, typer.Option(help="Epochs of each classifier step.", rich_help_panel=_METHOD)
]
Seed = Annotated[int, typer.Option(help="Of the drawn labels and of the fit.")]
Device = Annotated[str, typer.Option(help="cpu, cuda, cuda:1, ...")]
MaxMemory = Annotated[
    str | None,
    typer.Option(
        metavar="SIZE", help="Most memory to take, such as 2GB; a fit that needs more says so."
    ),
]
Threads = Annotated[
    int | None, typer.Option(help="Processor threads; else 1 below 10,000 nodes, all above.")
]
Compare = Annotated[
    bool,
    typer.Option(
        "--compare",
        help="Also run plain methods on the same labels; an estimate has them in any case.",
        rich_help_panel=_OUTPUT,
    ),
]
ClassWeight = Annotated[
    str | None,
    typer.Option(
        help="With balanced, labels of each class count as much as those of any other.",
        rich_help_panel=_METHOD,
    ),
]
Folds = Annotated[
    int | None,
    typer.Option(
        min=2,
        help="Judge the fit on labels it has not seen, in this many fits without them. Without it: "
        "5 where no label is left to test, none elsewhere.",
        show_default=False,
        rich_help_panel=_METHOD,
    ),
]
NoEstimate = Annotated[
    bool,
    typer.Option(
        "--no-estimate", help="Judge nothing and calibrate nothing.", rich_help_panel=_METHOD
    ),
]
Settings = Annotated[
    Path | None,
    typer.Option(help="File of parameters, the tuning.json of glnn tune.", rich_help_panel=_METHOD),
]
Out = Annotated[
    Path | None,
    typer.Option(help="Run folder; else runs/NAME-PRESET-SEED.", rich_help_panel=_OUTPUT),
]
Overwrite = Annotated[
    bool, typer.Option("--overwrite", help="Replace an old run.", rich_help_panel=_OUTPUT)
]
Checkpoint = Annotated[
    Path | None,
    typer.Option(
        help="Folder for the state after each round, to go on from; else beside the run folder, "
        "until the run is done. Needed over several processes.",
        rich_help_panel=_OUTPUT,
    ),
]
Resume = Annotated[
    bool,
    typer.Option(
        "--resume",
        help="Go on with a run that was interrupted or killed; else it starts anew.",
        rich_help_panel=_OUTPUT,
    ),
]
Quiet = Annotated[
    bool, typer.Option("--quiet", help="Print nothing but errors.", rich_help_panel=_OUTPUT)
]
AsJson = Annotated[
    bool, typer.Option("--json", help="Print JSON for machines.", rich_help_panel=_OUTPUT)
]

_TABLE_OPTIONS: dict[str, tuple[Any, Any]] = {
    "id_column": (IdColumn, None),
    "label_column": (LabelColumn, None),
    "on_unknown": (OnUnknown, "error"),
    "encode": (Encode, "error"),
    "missing": (Missing, "error"),
    "dates": (Dates, False),
    "features": (Features, None),
    "drop": (Drop, None),
    "delimiter": (Delimiter, None),
    "decimal": (Decimal, None),
    "encoding": (Encoding, None),
}


def with_table_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command all options of a table; it gets them as its argument ``columns``.

    Parameters
    ----------
    command
        A function with a parameter ``columns`` of type :class:`glnn.data.TableOptions`.
    """
    own = inspect.signature(command).parameters
    kind = inspect.Parameter.KEYWORD_ONLY
    added = [
        inspect.Parameter(name, kind, annotation=hint, default=default)
        for name, (hint, default) in _TABLE_OPTIONS.items()
    ]
    parameters = []
    for parameter in own.values():
        if parameter.name == "columns":
            parameters += added
        else:
            parameters.append(parameter.replace(kind=kind))

    def wrapped(**given: Any) -> None:
        from glnn.data import TableOptions

        table = {name: given.pop(name) for name in _TABLE_OPTIONS}
        names = {name: patterns(table[name]) for name in ("features", "drop")}
        command(**given, columns=TableOptions(**{**table, **names}))

    functools.update_wrapper(wrapped, command)
    wrapped.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    wrapped.__annotations__ = {p.name: p.annotation for p in parameters}
    return wrapped


def patterns(given: list[str] | None) -> tuple[str, ...]:
    """Return the names and patterns of an option, split at commas.

    Examples
    --------
    >>> patterns(["age, x*", "height"])
    ('age', 'x*', 'height')
    """
    return tuple(part.strip() for text in given or () for part in text.split(",") if part.strip())
