"""Commands of other packages: found by entry point, or answered with what to install."""

from collections.abc import Callable
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec

import typer

GROUP = "glnn.commands"
"""Entry points of this group are functions that add a command to the application."""
PACKAGE = "glnn_lab"
COMMANDS = {
    "reproduce": "Run a table or figure of the paper, beside the published numbers",
    "bench": "Measure time, memory and growth, beside what people use instead",
}
"""What the laboratory adds; listed and answered even where it is not installed."""

Register = Callable[[typer.Typer], None]


def add_commands(app: typer.Typer) -> None:
    """Add the commands of installed packages, and hints in place of missing ones."""
    installed = {point.name: point for point in entry_points(group=GROUP)}
    for name in [*COMMANDS, *(name for name in installed if name not in COMMANDS)]:
        register = _loaded(installed[name]) if name in installed else _beside(name)
        register(app)


def _loaded(point: EntryPoint) -> Register:
    """Return the command of an installed package; a broken one must not cost the others."""
    try:
        register: Register = point.load()
    except (ImportError, AttributeError) as error:
        return _refusal(point.name, f"glnn {point.name} cannot be loaded: {error}.")
    return register


def _beside(name: str) -> Register:
    """Return the command from a source tree on the path, which has no entry points."""
    if find_spec(PACKAGE) is not None:
        register: Register = import_module(f"{PACKAGE}.cli.{name}").register
        return register
    return _refusal(
        name,
        f"glnn {name} belongs to the package glnn-lab, which is not installed. Install it with: "
        "pip install glnn-lab (in a copy of the repository: pip install ./lab)",
    )


def _refusal(name: str, words: str) -> Register:
    """Return what adds a command that takes any words and says why it cannot run."""

    def refuse() -> None:
        from glnn.exceptions import InputError  # imports scikit-learn, which help can do without

        raise InputError(words)

    def register(app: typer.Typer) -> None:
        any_words = {"allow_extra_args": True, "ignore_unknown_options": True}
        about = f"{COMMANDS.get(name, 'A further command')} (needs glnn-lab)."
        app.command(name, help=about, context_settings=any_words, add_help_option=False)(refuse)

    return register
