"""The command ``glnn``: one application, one place where errors become one line and a code."""

import sys
import warnings
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from glnn.cli import compare, data, doctor, explain, export, fit, laboratory, predict, report, tune

DONE, FAILED, BAD_INPUT, INTERRUPTED = 0, 1, 2, 130
_UsageError: Any = typer.BadParameter.__mro__[1]  # Typer brings Click along or has its own copy
_ClickError: Any = _UsageError.__mro__[1]

app = typer.Typer(
    name="glnn",
    help="Learn a graph from data and a few labels, and classify its nodes.",
    epilog=(
        "[bold]Start here[/bold]: glnn fit digits --labels-per-class 5 --compare, "
        "then open runs/digits-default-0/report.html"
    ),
    rich_markup_mode="rich",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
app.command(epilog=fit.EXAMPLES)(fit.fit)
app.command(epilog=predict.EXAMPLES)(predict.predict)
app.command()(report.report)
app.command(epilog=compare.EXAMPLES)(compare.compare)
app.command(epilog=explain.EXAMPLES)(explain.explain)
app.command(epilog=export.EXAMPLES)(export.export)
app.command(epilog=tune.EXAMPLES)(tune.tune)
app.add_typer(data.app, name="data")
app.command()(doctor.doctor)
laboratory.add_commands(app)


def _show_version(wanted: bool) -> bool:
    if wanted:
        from glnn import __version__

        typer.echo(f"glnn {__version__}")
        raise typer.Exit
    return wanted


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option("--version", help="show the version", callback=_show_version, is_eager=True),
    ] = False,
) -> None:
    """Learn a graph from data and a few labels, and classify its nodes."""


def main(args: Sequence[str] | None = None) -> int:
    """Run the command; return 0 if it is done, 1 if it failed, 2 for bad input."""
    with warnings.catch_warnings():
        warnings.simplefilter("default", UserWarning)
        warnings.showwarning = _show_warning
        try:
            given = sys.argv[1:] if args is None else list(args)
            code = app(given, prog_name="glnn", standalone_mode=False)
        except Exception as error:
            return _explain(error)
    if code == INTERRUPTED:
        return _say("interrupted", INTERRUPTED)
    return code if isinstance(code, int) else DONE


def _explain(error: Exception) -> int:
    """Say in one line what went wrong; a mistake of our own keeps its traceback."""
    from glnn.exceptions import (
        CheckpointError,
        GlnnError,
        InputError,
        OutputError,
        SaidByPeerError,
        StoppedError,
    )

    if isinstance(error, typer.Abort):
        return _say("interrupted", INTERRUPTED)
    if isinstance(error, StoppedError):
        return _say(error, error.code)
    if type(error).__name__ == "NoArgsIsHelpError":
        return BAD_INPUT  # the help has been printed
    if isinstance(error, _UsageError | _ClickError):
        return _say(error.format_message(), BAD_INPUT)
    if isinstance(error, SaidByPeerError):
        return BAD_INPUT  # the process that noticed says it
    if isinstance(error, InputError | CheckpointError):
        return _say(error, FAILED if isinstance(error, OutputError) else BAD_INPUT)
    if isinstance(error, BrokenPipeError):
        return DONE  # whoever read the output has seen enough
    if isinstance(error, GlnnError | MemoryError):
        return _say(str(error) or "out of memory", FAILED)
    if isinstance(error, OSError):
        where = "" if error.filename is None else f": {error.filename}"
        return _say(f"{error.strerror or error}{where}", BAD_INPUT)
    raise error


def _say(what: object, code: int) -> int:
    text = " ".join(str(what).split())
    print(f"glnn: {'error: ' if code in (FAILED, BAD_INPUT) else ''}{text}", file=sys.stderr)
    return code


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    print(f"glnn: warning: {' '.join(str(message).split())}", file=sys.stderr)
