"""The command ``glnn``: all subcommands, and errors as one line with an exit code."""

import gc
import shlex
import sys
import warnings
from collections.abc import Sequence
from importlib import import_module
from importlib.metadata import entry_points
from importlib.util import find_spec
from typing import Annotated, Any

import typer

from glnn.cli import commands, data_command, fit_command, studio_command

# Commands of other packages

GROUP = "glnn.commands"  # entry points of this group are functions that add a command
PACKAGE = "glnn_lab"
COMMANDS = {  # commands of glnn-lab, listed even if it is not installed
    "reproduce": "Reproduce a table or figure of the paper, with the published numbers",
    "bench": "Measure time, memory and growth, compared with other programs",
}

_MISSING = (
    "belongs to the package glnn-lab, which is not installed. Install it with: "
    "pip install glnn-lab (in a copy of the repository: pip install ./lab)"
)


def add_commands(app: typer.Typer) -> None:
    """Add the commands of installed packages, and stubs for those of glnn-lab if it is missing."""
    installed = {point.name: point for point in entry_points(group=GROUP)}
    for name in {**COMMANDS, **installed}:
        try:
            if name in installed:
                installed[name].load()(app)
            elif find_spec(PACKAGE) is not None:  # a source tree on the path has no entry points
                import_module(f"{PACKAGE}.cli.{name}").register(app)
            else:
                _add_stub(app, name, f"glnn {name} {_MISSING}")
        except (ImportError, AttributeError) as error:
            _add_stub(app, name, f"glnn {name} cannot be loaded: {error}.")


def _add_stub(app: typer.Typer, name: str, message: str) -> None:
    """Add a command which only raises an error with ``message``."""

    def refuse() -> None:
        from glnn.exceptions import InputError  # imports scikit-learn, which --help does not need

        raise InputError(message)

    any_arguments = {"allow_extra_args": True, "ignore_unknown_options": True}
    about = f"{COMMANDS.get(name, 'A further command')} (needs glnn-lab)."
    app.command(name, help=about, context_settings=any_arguments, add_help_option=False)(refuse)


# The application

DONE, FAILED, BAD_INPUT, INTERRUPTED = 0, 1, 2, 130
_UsageError: Any = typer.BadParameter.__mro__[1]  # Typer imports Click or has its own copy
_ClickError: Any = _UsageError.__mro__[1]

app = typer.Typer(
    name="glnn",
    help="Label all rows of a table from a few known labels, and say how far to trust the answer.",
    epilog=(
        "[bold]Start here[/bold]: glnn fit mine.csv --label COLUMN, or without own data "
        "glnn fit digits --labels-per-class 5; then open the report that the command names."
    ),
    rich_markup_mode="rich",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
app.command(epilog=fit_command.EXAMPLES)(fit_command.fit)
app.command(epilog=commands.PREDICT_EXAMPLES)(commands.predict)
app.command()(commands.report)
app.command()(commands.compare)
app.command()(commands.explain)
app.command()(commands.suggest)
app.command()(commands.export)
app.command(epilog=commands.TUNE_EXAMPLES)(commands.tune)
app.command(epilog=studio_command.EXAMPLES)(studio_command.studio)
app.add_typer(data_command.app, name="data")
app.command()(commands.doctor)
add_commands(app)


@app.callback(invoke_without_command=True)
def _options(
    version: Annotated[bool, typer.Option("--version", help="Show the version and exit.")] = False,
) -> None:
    """Label all rows of a table from a few known labels, and say how far to trust the answer."""
    if version:
        from glnn import __version__

        typer.echo(f"glnn {__version__}")
        raise typer.Exit


def main(args: Sequence[str] | None = None) -> int:
    """Run the command; return 0 on success, 1 for a failure, 2 for bad input."""
    thresholds = gc.get_threshold()
    gc.set_threshold(100_000)  # collections every 700 objects slow down imports by a quarter
    with warnings.catch_warnings():
        warnings.simplefilter("default", UserWarning)
        warnings.showwarning = _show_warning
        given = sys.argv[1:] if args is None else list(args)
        try:
            code = app(given, prog_name="glnn", standalone_mode=False)
        except Exception as error:
            return _report_error(error, given)
        finally:
            gc.set_threshold(*thresholds)
    if code == INTERRUPTED:
        return _print_error("interrupted", INTERRUPTED)
    return code if isinstance(code, int) else DONE


def _report_error(error: Exception, given: Sequence[str]) -> int:
    """Print an error in one line; an unexpected error is raised again, with its traceback."""
    from glnn.exceptions import (
        CheckpointError,
        GlnnError,
        InputError,
        OutputError,
        PeerInputError,
        StoppedError,
    )

    if isinstance(error, typer.Abort):
        return _print_error("interrupted", INTERRUPTED)
    if isinstance(error, StoppedError):
        return _print_error(error, error.code)
    # the help has been printed, or the process with the error prints it
    if type(error).__name__ == "NoArgsIsHelpError" or isinstance(error, PeerInputError):
        return BAD_INPUT
    if isinstance(error, _UsageError | _ClickError):
        return _print_error(error.format_message(), BAD_INPUT)
    if isinstance(error, InputError | CheckpointError):
        add = getattr(error, "add", "")
        typed = f" Type: {shlex.join(['glnn', *given])} {add}" if add else ""
        code = FAILED if isinstance(error, OutputError) else BAD_INPUT
        return _print_error(f"{error}{typed}", code)
    if isinstance(error, BrokenPipeError):
        return DONE  # the reader of the output has closed it
    if isinstance(error, GlnnError | MemoryError):
        return _print_error(str(error) or "out of memory", FAILED)
    if isinstance(error, OSError):
        where = "" if error.filename is None else f": {error.filename}"
        return _print_error(f"{error.strerror or error}{where}", BAD_INPUT)
    raise error


def _print_error(what: object, code: int) -> int:
    text = " ".join(str(what).split())
    print(f"glnn: {'error: ' if code in (FAILED, BAD_INPUT) else ''}{text}", file=sys.stderr)
    return code


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    print(f"glnn: warning: {' '.join(str(message).split())}", file=sys.stderr)
