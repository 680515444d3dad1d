import subprocess
import sys
from importlib.metadata import EntryPoint

import pytest
import typer

from glnn import __version__
from glnn.cli import main
from glnn.cli import main as module
from glnn.exceptions import DownloadError, GraphWarning, InputError

# The application


def fresh(code, *args, **more):
    """Run ``code`` with ``main`` of the command in a process of its own."""
    code = f"import sys; from glnn.cli.main import main\n{code}"
    return subprocess.run(
        [sys.executable, "-c", code, *args], capture_output=True, text=True, **more
    )


def test_help_names_every_command_and_teaches_by_examples(glnn):
    outcome = glnn("--help")
    assert outcome.code == 0
    assert all(word in outcome.out for word in ("fit", "predict", "data", "doctor", "--version"))
    assert "glnn fit digits" in glnn("fit", "--help").out
    bare = glnn()
    assert bare.code == 2 and "Usage: glnn" in bare.out + bare.err


WRONG = {
    "fit nofile.csv": "must be a file",
    "fit t.csv --label nope": "got 'nope'",
    "fit t.csv --drop nope": "got 'nope'",
    "fit t.csv": "Type: glnn fit t.csv --label kind",
    "fit t.csv --label kind --graph t.csv": "only ids that the features have",
    "fit t.csv --label only": "one class only",
}


def test_wrong_data_are_answered_before_pytorch_is_imported(tmp_path):
    rows = "".join(f"{0.5 * k},{'ab'[k % 2]},z\n" for k in range(6))
    (tmp_path / "t.csv").write_text("x,kind,only\n" + rows)
    code = "print([main(line.split()) for line in sys.argv[1:]], 'torch' in sys.modules)"
    outcome = fresh(code, *WRONG, cwd=tmp_path)
    assert outcome.stdout == f"{[2] * len(WRONG)} False\n"
    for line, words in zip(outcome.stderr.splitlines(), WRONG.values(), strict=True):
        assert words in line


def test_help_is_quick_because_nothing_heavy_is_imported():
    heavy = "[name for name in ('torch', 'numpy', 'scipy', 'sklearn') if name in sys.modules]"
    assert fresh(f"main(['--help']); print({heavy})").stdout.rstrip().endswith("[]")


def test_the_module_is_the_command():
    done = subprocess.run(
        [sys.executable, "-m", "glnn", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout == f"glnn {__version__}\n"


def failing(monkeypatch, error):
    def fail(*_, **__):
        raise error

    monkeypatch.setattr(module, "app", fail)


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (InputError("a\nb"), 2, "glnn: error: a b\n"),
        (DownloadError("no network"), 1, "glnn: error: no network\n"),
        (FileNotFoundError(2, "No such file", "x.csv"), 2, "glnn: error: No such file: x.csv\n"),
        (MemoryError(), 1, "glnn: error: out of memory\n"),
        (BrokenPipeError(), 0, ""),
    ],
)
def test_each_failure_has_its_exit_code_and_one_line(glnn, monkeypatch, error, code, words):
    failing(monkeypatch, error)
    assert glnn("fit") == (code, "", words)


def test_a_mistake_of_our_own_keeps_its_traceback(monkeypatch):
    failing(monkeypatch, ZeroDivisionError())
    with pytest.raises(ZeroDivisionError):
        module.main(["fit"])


def test_an_interrupt_ends_with_one_line_and_130(glnn, monkeypatch):
    def interrupted():
        raise KeyboardInterrupt

    monkeypatch.setattr("glnn.cli.commands.health_rows", interrupted)
    outcome = glnn("doctor")
    assert outcome.code == 130
    assert outcome.err.strip() == "glnn: interrupted"


def test_warnings_are_one_line_each(glnn, monkeypatch):
    import warnings

    def warn(*_, **__):
        warnings.warn("edges were\nmerged", GraphWarning, stacklevel=1)

    monkeypatch.setattr(module, "app", warn)
    assert glnn("fit") == (0, "", "glnn: warning: edges were merged\n")


# Commands of other packages


def registered(monkeypatch, *points):
    """The application with these entry points, without a laboratory beside it."""
    monkeypatch.setattr(main, "entry_points", lambda group: points)
    monkeypatch.setattr(main, "find_spec", lambda name: None)
    app = typer.Typer(add_completion=False)
    app.command("fit")(lambda: None)
    main.add_commands(app)
    monkeypatch.setattr(main, "app", app)


def plugin(app):
    app.command("own")(lambda: print("done"))


@pytest.mark.parametrize("words", [("reproduce", "table1"), ("bench",), ("bench", "--help")])
def test_without_the_laboratory_its_commands_say_what_to_install(glnn, monkeypatch, words):
    registered(monkeypatch)
    assert glnn(*words).is_bad_input(f"glnn {words[0]}", "pip install glnn-lab")


def test_a_package_adds_a_command_by_entry_point(glnn, monkeypatch):
    point = EntryPoint("own", f"{__name__}:plugin", main.GROUP)
    monkeypatch.setattr(EntryPoint, "load", lambda self: plugin)
    registered(monkeypatch, point)
    assert glnn("own") == (0, "done\n", "")


def test_a_package_that_cannot_be_loaded_costs_its_own_command_alone(glnn, monkeypatch):
    registered(monkeypatch, EntryPoint("reproduce", "no_such_package:f", main.GROUP))
    assert glnn("reproduce").is_bad_input("cannot be loaded", "no_such_package")
    assert glnn("fit").code == 0
