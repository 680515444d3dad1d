"""The laboratory as a package: its settings, and its commands among those of glnn."""

import configparser
import zipfile
from importlib import import_module
from pathlib import Path

import typer

from glnn.cli.main import COMMANDS, GROUP
from glnn_lab.experiments.targets import target_names

LAB = Path(__file__).parents[1]


def test_the_wheel_has_the_settings_of_every_target(built):
    _, names = built(LAB, "wheel")
    for target in target_names():
        assert f"glnn_lab/experiments/settings/{target}.toml" in names
    assert all(name.startswith(("glnn_lab/", "glnn_lab-")) for name in names)


def test_its_entry_points_add_the_commands_that_glnn_lists(built):
    archive, names = built(LAB, "wheel")
    (path,) = [name for name in names if name.endswith("entry_points.txt")]
    points = configparser.ConfigParser()
    points.read_string(zipfile.ZipFile(archive).read(path).decode())
    assert set(points[GROUP]) == set(COMMANDS)
    for name, where in points[GROUP].items():
        module, _, function = where.partition(":")
        app = typer.Typer()
        getattr(import_module(module), function)(app)
        added = [*app.registered_groups, *app.registered_commands]
        assert [one.name or one.callback.__name__ for one in added] == [name]
