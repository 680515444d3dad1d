"""Options shared by the commands, with their help texts."""

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
        "--labels", help="Table of ids and labels, if they are not in FILE.", rich_help_panel=_TABLE
    ),
]
GraphFile = Annotated[
    Path | None,
    typer.Option(
        "--graph", help="Edge list: source, target, optional weight.", rich_help_panel=_TABLE
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
        help="Column of labels; 'label' if there is one. Rows with an empty cell are predicted.",
        rich_help_panel=_TABLE,
    ),
]
OnUnknown = Annotated[
    str,
    typer.Option(
        help="Labels and edges of ids that are not in FILE: error or drop.", rich_help_panel=_TABLE
    ),
]
Encode = Annotated[
    str,
    typer.Option(
        help="Text columns: error, onehot, or auto (one-hot for few different values, else the "
        "frequency of the value; dates become numbers).",
        rich_help_panel=_TABLE,
    ),
]
Missing = Annotated[
    str,
    typer.Option(
        help="Missing numbers: error, median, or indicator (median, and a column that marks "
        "missing values).",
        rich_help_panel=_TABLE,
    ),
]
Dates = Annotated[
    bool,
    typer.Option("--dates", help="Convert columns of dates to numbers.", rich_help_panel=_TABLE),
]
Features = Annotated[
    list[str] | None,
    typer.Option(
        help="Columns to use: names or patterns such as 'x*', separated by commas or repeated.",
        rich_help_panel=_TABLE,
    ),
]
Drop = Annotated[
    list[str] | None,
    typer.Option(help="Columns to leave out, in the same way.", rich_help_panel=_TABLE),
]
Delimiter = Annotated[
    str | None,
    typer.Option(
        help="Delimiter of cells; by default detected (, ; tab |).", rich_help_panel=_TABLE
    ),
]
Decimal = Annotated[
    str | None,
    typer.Option(help="Decimal mark: . or , ; by default detected.", rich_help_panel=_TABLE),
]
Encoding = Annotated[
    str | None,
    typer.Option(help="Text encoding, such as cp1252; by default UTF-8.", rich_help_panel=_TABLE),
]
LabelsPerClass = Annotated[
    int | None,
    typer.Option(
        help="Train on this many labels of each class and test on all others. By default: the "
        "published split; 20 per class for data that come with glnn; all labels of your own table.",
        rich_help_panel=_METHOD,
    ),
]
NoGraph = Annotated[
    bool, typer.Option("--no-graph", help="Ignore a given graph.", rich_help_panel=_METHOD)
]
Preset = Annotated[
    str,
    typer.Option(
        help="default (most accurate), paper (the paper's objective, solved exactly) or literal "
        "(the paper's optimiser as printed).",
        rich_help_panel=_METHOD,
    ),
]
Head = Annotated[
    str | None,
    typer.Option(
        help="Network: gcn, propagation, linear or hops; by default several are mixed.",
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
Seed = Annotated[int, typer.Option(help="Random seed of the split and of the fit.")]
Device = Annotated[str, typer.Option(help="cpu, cuda, cuda:1, ...")]
Threads = Annotated[
    int | None, typer.Option(help="Most CPU threads; below 10,000 nodes one is used.")
]
Rivals = Annotated[
    str,
    typer.Option(
        metavar="auto|none|NAME,...",
        help="Methods to compare with on unseen labels: majority, logistic_regression, "
        "label_spreading, boosted_trees; with a graph also gcn, logistic_regression_neighbors, "
        "boosted_trees_neighbors. auto: all of them, none with several processes.",
        rich_help_panel=_METHOD,
    ),
]
Group = Annotated[
    str | None,
    typer.Option(
        metavar="COLUMN",
        help="Column of groups, such as patients: the folds hide all labels of a group together.",
        rich_help_panel=_METHOD,
    ),
]
Time = Annotated[
    str | None,
    typer.Option(
        "--time",
        metavar="COLUMN",
        help="Column of times: each fold is predicted from earlier labels.",
        rich_help_panel=_METHOD,
    ),
]
ClassWeight = Annotated[
    str | None,
    typer.Option(
        help="With balanced, all classes have the same total weight.",
        rich_help_panel=_METHOD,
    ),
]
Folds = Annotated[
    int | None,
    typer.Option(
        min=2,
        help="Estimate the accuracy by cross-validation with this many folds. By default: 5 if "
        "there are no test labels, else none.",
        show_default=False,
        rich_help_panel=_METHOD,
    ),
]
NoEstimate = Annotated[
    bool,
    typer.Option("--no-estimate", help="No estimate and no calibration.", rich_help_panel=_METHOD),
]
Settings = Annotated[
    Path | None,
    typer.Option(help="File of parameters: tuning.json of glnn tune.", rich_help_panel=_METHOD),
]
Out = Annotated[
    Path | None,
    typer.Option(help="Run folder; by default runs/NAME-PRESET-SEED.", rich_help_panel=_OUTPUT),
]
Overwrite = Annotated[
    bool, typer.Option("--overwrite", help="Replace an existing run.", rich_help_panel=_OUTPUT)
]
Checkpoint = Annotated[
    Path | None,
    typer.Option(
        help="Folder for the state after each round, to resume from; by default next to the run "
        "folder, until the run is finished. Required with several processes.",
        rich_help_panel=_OUTPUT,
    ),
]
Resume = Annotated[
    bool,
    typer.Option(
        "--resume",
        help="Resume a run that was interrupted or killed.",
        rich_help_panel=_OUTPUT,
    ),
]
Quiet = Annotated[
    bool, typer.Option("--quiet", help="Print nothing but errors.", rich_help_panel=_OUTPUT)
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.", rich_help_panel=_OUTPUT)]

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
    """Add all table options to a command.

    The command receives them as its parameter ``columns``, a :class:`glnn.data.TableOptions`.
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

    def wrapper(**given: Any) -> None:
        from glnn.data import TableOptions

        table = {name: given.pop(name) for name in _TABLE_OPTIONS}
        names = {name: split_patterns(table[name]) for name in ("features", "drop")}
        command(**given, columns=TableOptions(**{**table, **names}))

    functools.update_wrapper(wrapper, command)
    wrapper.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    wrapper.__annotations__ = {p.name: p.annotation for p in parameters}
    return wrapper


def split_patterns(given: list[str] | None) -> tuple[str, ...]:
    """Split the names and patterns of an option at commas.

    Examples
    --------
    >>> split_patterns(["age, x*", "height"])
    ('age', 'x*', 'height')
    """
    return tuple(part.strip() for text in given or () for part in text.split(",") if part.strip())


def parse_rivals(given: str) -> str | tuple[str, ...] | None:
    """Return the value of ``--rivals`` in the form of :func:`glnn.evaluate`.

    Examples
    --------
    >>> parse_rivals("auto"), parse_rivals("none"), parse_rivals("gcn,majority")
    ('auto', None, ('gcn', 'majority'))
    """
    if given in ("auto", "none"):
        return None if given == "none" else given
    return split_patterns([given])
