"""Options of the commands by name, with their help texts."""

import functools
import inspect
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

_data, _evaluation, _method, _output = (
    functools.partial(typer.Option, rich_help_panel=panel)
    for panel in ("Data", "Evaluation", "Method", "Output")
)

OPTIONS: dict[str, Any] = {
    "name": typer.Argument(
        metavar="NAME|FILE",
        help="A data set (digits, wine, breast_cancer, blobs, block_model; cora, citeseer, pubmed, "
        "terrorattack, terroristsrel) or a file (.csv, also as .gz, .bz2 or .zip, .tsv, .jsonl, "
        ".xlsx, .parquet, .feather, .npz, .graphml, .gexf).",
        show_default=False,
    ),
    "run": typer.Argument(help="Run folder of glnn fit.", show_default=False),
    "id_column": _data("--id", help="Column of ids; by default 'id', or it is recognised."),
    "label_column": _data(
        "--label",
        help="Column of labels; 'label' if there is one. Rows with an empty cell are predicted.",
    ),
    "features": _data(help="Columns to use: names or patterns such as 'x*', separated by commas."),
    "drop": _data(help="Columns to leave out, in the same way."),
    "encode": _data(
        help="Text columns: error, onehot, or auto (one-hot for few different values, else the "
        "frequency of the value; dates become days)."
    ),
    "missing": _data(
        help="Missing numbers: error, median, indicator (median, and a column that marks missing "
        "values), or auto (a mark only where many are missing)."
    ),
    "kinds": _data(
        "--as",
        metavar="COLUMN=KIND",
        help="Read a column as number, category, dmy or mdy (dates by the order of their parts); "
        "repeatable.",
        show_default=False,
    ),
    "na": _data(
        metavar="VALUE", help="A cell value that means missing; repeatable.", show_default=False
    ),
    "sheet": _data(help="Sheet of a workbook; by default the first."),
    "source_column": _data("--source", help="Source column of the edge list; by default found."),
    "target_column": _data("--target", help="Target column of the edge list; by default found."),
    "weight_column": _data("--weight", help="Weight column of the edge list; none: no weights."),
    "labels": _data(help="Table of ids and labels, if they are not in FILE."),
    "graph": _data(
        help="Edge list: source, target, optional weight; none ignores the graph of the data."
    ),
    "labels_per_class": _evaluation(
        help="Train on this many labels of each class and test on all others. By default: the "
        "published split; 20 per class for data that come with glnn; all labels of your own table."
    ),
    "folds": _evaluation(
        min=0,
        help="Estimate the accuracy by cross-validation with this many folds; 0: no estimate and "
        "no calibration. By default: 5 if there are no test labels, else none.",
        show_default=False,
    ),
    "rivals": _evaluation(
        metavar="auto|none|NAME,...",
        help="Methods to compare with on unseen labels: majority, logistic_regression, "
        "label_spreading, boosted_trees; with a graph also gcn, logistic_regression_neighbors, "
        "boosted_trees_neighbors. auto: all of them, none with several processes.",
    ),
    "group": _evaluation(
        metavar="COLUMN", help="Column of groups, such as patients: folds hide each as a whole."
    ),
    "time_column": _evaluation(
        "--time", metavar="COLUMN", help="Column of times: folds are predicted from earlier labels."
    ),
    "preset": _method(
        help="default (most accurate), paper (the paper's objective, solved exactly), literal "
        "(the paper's optimiser as printed), or the tuning.json of glnn tune."
    ),
    "epochs": _method(help="Epochs of each classifier step."),
    "seed": _method(help="Random seed of the split and of the fit."),
    "device": _method(help="cpu, cuda, cuda:1, ..."),
    "threads": _method(help="Use at most this many CPU threads. Below 10,000 rows one is used."),
    "settings": _method(
        "--set",
        metavar="NAME=VALUE",
        help="Any other setting; repeatable: of the fit (n_neighbors=15, head=gcn, "
        "class_weight=balanced), or of reading a table (delimiter, decimal, encoding; "
        "on_unknown=drop for labels and edges of ids that are not in FILE; exact_labels=true).",
        show_default=False,
    ),
    "out": _output(help="Run folder; by default runs/NAME-PRESET-SEED."),
    "overwrite": _output("--overwrite", help="Replace existing files."),
    "resume": _output("--resume", help="Resume a run that was interrupted or killed."),
    "checkpoint": _output(
        help="Folder for the state after each round, to resume from; by default next to the run "
        "folder, until the run is finished. Several processes keep no state without it."
    ),
    "quiet": _output("--quiet", help="Print nothing but errors."),
    "verbose": _output("--verbose", help="Also print choices of the fit and notes of the solver."),
    "as_json": _output("--json", help="Print JSON."),
    # of single commands
    "info name": typer.Argument(help="A data set's name, or a file or folder of data."),
    "convert name": typer.Argument(metavar="IN", help="File, folder or data set's name."),
    "convert target": typer.Argument(
        metavar="OUT", help="File to write; its suffix is the format: npz, csv, graphml, ..."
    ),
    "report out": typer.Option(help="The HTML file; by default report.html in the run folder."),
    "export to": typer.Option(help="graphml, gexf, csv, npz or parquet.", show_default=False),
    "export out": typer.Option(help="Folder of the files; by default export in the run folder."),
    "compare runs": typer.Argument(metavar="RUN RUN...", help="Run folders of glnn fit."),
    "explain node": typer.Argument(metavar="ID", help="Id of a node.", show_default=False),
    "predict new": typer.Argument(
        metavar="NEW.csv", help="Table with the columns of the training data.", show_default=False
    ),
    "predict links": typer.Option(help="Edge list between new ids and training ids."),
    "predict out": typer.Option(help="File for ids, labels and probabilities; else printed."),
    "tune trials": typer.Option(min=1, help="Number of settings to try; the first is the preset."),
    "tune nested": typer.Option(min=0, help="Outer folds, each with a search; 0: no estimate."),
    "tune goal": typer.Option(help="accuracy, balanced_accuracy, macro_f1 or log_loss."),
    "tune out": typer.Option(help="Folder of the search; by default runs/NAME-tuning-SEED."),
    "studio out": typer.Option(help="Folder of the session; by default runs/NAME-studio."),
    "studio port": typer.Option(min=0, max=65535, help="Port of the page; 0: any free one."),
    "studio oracle": typer.Option(
        metavar="COLUMN",
        help="Label by this column instead of a page, and print the accuracy on the other rows; "
        "for data other than a table, label by their own labels.",
    ),
    "studio order": typer.Option(help="Of the oracle's rows: suggested or random."),
}


# Types and defaults of the options that a parameter ``source`` stands for
_FILES: dict[str, Any] = {"name": (str, inspect.Parameter.empty)}
_FILES |= dict.fromkeys(("labels", "graph"), (Path | None, None))
_ONE = ("id_column", "label_column", "sheet", "source_column", "target_column", "weight_column")
_TABLE: dict[str, Any] = dict.fromkeys(_ONE, (str | None, None))
_TABLE |= dict.fromkeys(("features", "drop", "kinds", "na", "settings"), (list[str] | None, None))
_TABLE |= dict.fromkeys(("encode", "missing"), (str, "auto"))

# Table options of --set; the last one is true or false, the others are text.
_READING = ("delimiter", "decimal", "encoding", "on_unknown", "exact_labels")


def make_console(*, quiet: bool = False) -> Console:
    """Return a console that prints the text of data as it is: brackets and colons mean nothing."""
    return Console(quiet=quiet, markup=False, emoji=False, highlight=False)


def with_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give each parameter of a command the option of its name, unless it has its own.

    ``OPTIONS`` has the name of the command before that of an option which is its alone.

    A parameter ``source`` stands for the options of data and receives a
    :class:`glnn.report.sources.Source`; a parameter ``settings`` beside it receives what ``--set``
    says of the fit.
    """
    own = inspect.signature(command).parameters
    hints = {
        n: (p.annotation, p.default) for n, p in own.items() if n not in ("source", "settings")
    }
    if "source" in own:
        hints = {**_FILES, **hints, **_TABLE}
    parameters = []
    for name, (hint, default) in hints.items():
        if not hasattr(hint, "__metadata__"):
            key = f"{command.__name__} {name}"
            hint = Annotated[hint, OPTIONS[key if key in OPTIONS else name]]
        parameters.append(
            inspect.Parameter(
                name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=hint
            )
        )

    def wrapper(**given: Any) -> None:
        if "source" in own:
            from glnn.data import TableOptions
            from glnn.report.sources import Source

            table = {name: given.pop(name) for name in _TABLE}
            settings = parse_settings(table.pop("settings") or (), of_fit="settings" in own)
            table |= {name: settings.pop(name) for name in _READING if name in settings}
            table |= {name: split_patterns(table[name]) for name in ("features", "drop")}
            table |= {"kinds": parse_kinds(table["kinds"] or ()), "na": table["na"] or ()}
            files = {name: given.pop(name) for name in _FILES}
            given["source"] = Source(**files, options=TableOptions(**table))
            if "settings" in own:
                given["settings"] = settings
        command(**given)

    functools.update_wrapper(wrapper, command)
    wrapper.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    wrapper.__annotations__ = {p.name: p.annotation for p in parameters}
    return wrapper


def parse_kinds(given: Sequence[str]) -> dict[str, str]:
    """Return the kinds of columns ``COLUMN=KIND`` by column.

    Examples
    --------
    >>> parse_kinds(["zip=category", "a=b=number"])
    {'zip': 'category', 'a=b': 'number'}
    """
    from glnn.exceptions import InputError

    bad = next((text for text in given if "=" not in text), None)
    if bad is not None:
        raise InputError(f"--as must be COLUMN=KIND, as in zip=category, got {bad!r}.")
    return dict(text.rsplit("=", 1) for text in given)


def parse_settings(given: Sequence[str], *, of_fit: bool) -> dict[str, Any]:
    """Return the settings ``NAME=VALUE`` by name; an unknown name raises an error.

    Without ``of_fit`` only settings of reading a table are known.
    """
    from glnn._utils import did_you_mean
    from glnn.exceptions import InputError

    known, settings = list(_READING), {}
    if of_fit and given:  # it takes seconds to import
        from glnn.engine.settings import SETTING_NAMES

        known += ["class_weight", *(name for name in SETTING_NAMES if name != "weights")]
    for text in given:
        if "=" not in text:
            raise InputError(f"--set must be NAME=VALUE, got {text!r}.")
        name, value = text.split("=", 1)
        name = name.strip().replace("-", "_")
        if name not in known:
            hint = did_you_mean(name, known)
            raise InputError(f"--set must name a setting, got {name!r}.{hint}")
        settings[name] = value if name in _READING[:-1] else parse_value(value)
    return settings


def parse_value(text: str) -> Any:
    """Return a number, true, false, none, a list separated by commas, or the text itself.

    Examples
    --------
    >>> [parse_value(text) for text in ("15", "1e-3", "true", "none", "gcn", "hops,linear")]
    [15, 0.001, True, None, 'gcn', ['hops', 'linear']]
    """
    text = text.strip()
    words = {"true": True, "false": False, "none": None}
    if text.lower() in words:
        return words[text.lower()]
    for number in (int, float):
        try:
            return number(text)
        except ValueError:
            continue
    return [parse_value(part) for part in text.split(",")] if "," in text else text


def split_patterns(given: list[str] | None) -> tuple[str, ...]:
    """Split the names and patterns of an option at commas.

    Examples
    --------
    >>> split_patterns(["age, x*", "height"])
    ('age', 'x*', 'height')
    """
    return tuple(part.strip() for text in given or () for part in text.split(",") if part.strip())
