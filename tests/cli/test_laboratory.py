from importlib.metadata import EntryPoint

import pytest
import typer

from glnn.cli import laboratory, main


def registered(monkeypatch, *points, has_lab=False):
    """The application with these entry points, and with or without a laboratory beside it."""
    monkeypatch.setattr(laboratory, "entry_points", lambda group: points)
    if not has_lab:
        monkeypatch.setattr(laboratory, "find_spec", lambda name: None)
    app = typer.Typer(add_completion=False)
    app.command("fit")(lambda: None)
    laboratory.add_commands(app)
    monkeypatch.setattr(main, "app", app)


def plugin(app):
    app.command("own")(lambda: print("done"))


@pytest.mark.parametrize("words", [("reproduce", "table1"), ("bench",), ("bench", "--help")])
def test_without_the_laboratory_its_commands_say_what_to_install(glnn, monkeypatch, words):
    registered(monkeypatch)
    assert glnn(*words).is_bad_input(f"glnn {words[0]}", "pip install glnn-lab")


def test_without_the_laboratory_help_lists_its_commands_with_a_hint(glnn, monkeypatch):
    registered(monkeypatch)
    shown = glnn("--help").out
    for name in laboratory.COMMANDS:
        assert name in shown
    assert shown.count("glnn-lab") == len(laboratory.COMMANDS)


def test_a_package_adds_a_command_by_entry_point(glnn, monkeypatch):
    point = EntryPoint("own", f"{__name__}:plugin", laboratory.GROUP)
    monkeypatch.setattr(EntryPoint, "load", lambda self: plugin)
    registered(monkeypatch, point)
    assert glnn("own") == (0, "done\n", "")


def test_a_package_that_cannot_be_loaded_costs_its_own_command_alone(glnn, monkeypatch):
    registered(monkeypatch, EntryPoint("reproduce", "no_such_package:f", laboratory.GROUP))
    assert glnn("reproduce").is_bad_input("cannot be loaded", "no_such_package")
    assert glnn("fit").code == 0


def test_from_a_source_tree_the_laboratory_is_found_by_name(monkeypatch):
    pytest.importorskip("glnn_lab")
    registered(monkeypatch, has_lab=True)
    names = [command.name or command.callback.__name__ for command in main.app.registered_commands]
    groups = [group.name for group in main.app.registered_groups]
    assert {"reproduce", "bench"} <= {*names, *groups}
