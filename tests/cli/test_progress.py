import io

import pytest
from rich.console import Console

from glnn.cli.progress import StageProgress
from glnn.engine.callbacks import Progress


def events():
    yield Progress("graph 1", 0, 0)
    yield Progress("classifier 1", 0, 2)
    yield Progress("classifier 1", 1, 2)
    yield Progress("classifier 1", 2, 2)


def shown(*, terminal, quiet=False, n_epochs=2):
    file = io.StringIO()
    console = Console(file=file, force_terminal=terminal, width=100)
    with StageProgress(console, n_epochs, quiet=quiet) as watch:
        for event in events():
            watch(event)
    return file.getvalue(), watch


def test_without_a_terminal_each_stage_is_one_line_with_its_time():
    text, _ = shown(terminal=False)
    assert [line.split()[:2] for line in text.splitlines()] == [["graph", "1"], ["classifier", "1"]]


def test_a_terminal_sees_a_bar_with_epochs_and_time_left():
    text, _ = shown(terminal=True)
    assert "epochs" in text
    assert "left" in text


def test_quiet_shows_nothing():
    assert shown(terminal=True, quiet=True)[0] == ""


def test_the_total_grows_when_a_stage_was_not_expected():
    _, watch = shown(terminal=False, n_epochs=1)
    assert watch._bar.tasks[0].total == 2
    assert watch._bar.tasks[0].completed == 2


def test_a_stage_that_failed_is_not_reported_as_finished():
    file = io.StringIO()
    with (
        pytest.raises(ValueError, match="stop"),
        StageProgress(Console(file=file), 2) as watch,
    ):
        watch(Progress("graph 1", 0, 0))
        raise ValueError("stop")
    assert file.getvalue() == ""
