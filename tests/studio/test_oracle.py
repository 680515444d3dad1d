import pandas as pd
import pytest

from glnn.cli.main import main
from glnn.data import TableOptions
from glnn.report.sources import Source
from glnn.studio import LabelSession
from glnn.studio.oracle import hide_labels, run_oracle

FAST = {"n_epochs": 4}


@pytest.fixture
def table(people):
    return people(40, {k: "?" if k == 7 else "ash" if k % 2 else "oak" for k in range(40)})


@pytest.mark.parametrize("order", ["suggested", "random"])
def test_an_oracle_labels_by_the_truth_and_accuracy_is_that_of_the_other_rows(
    order, table, tmp_path
):
    hidden, truth = hide_labels(Source(str(table), options=TableOptions(label_column="label")))
    assert "p7" not in truth
    with LabelSession(hidden, tmp_path / "s", background=False, params=FAST) as session:
        assert session.labels == {}
        assert "label" not in dict(session.card("p0")["values"])
        points = list(run_oracle(session, truth, budget=12, order=order, seed=3))
        assert len(session.labels) == 12
        assert session.labels.items() <= truth.items()
        rest = [row for row in truth if row not in session.labels]
        right = [session.predictions()[row] == truth[row] for row in rest]
    assert points[-1] == (12, sum(right) / len(rest))


def test_the_command_prints_and_writes_the_curve(table, tmp_path, capsys):
    args = ["studio", str(table), "--oracle", "label", "--budget", "6", "--set", "n_epochs=3"]
    assert main([*args, "--out", str(tmp_path / "s")]) == 0
    printed = capsys.readouterr().out
    found = pd.read_csv(tmp_path / "s" / "curve.csv")
    assert printed == (tmp_path / "s" / "curve.csv").read_text()
    assert found["n_labels"].tolist()[-1] == 6
    assert found["accuracy"].between(0, 1).all()


@pytest.mark.parametrize(
    "args",
    [
        ["TABLE", "--oracle", "label", "--label", "label"],
        ["TABLE", "--oracle", "none of them"],
        ["TABLE", "--oracle", "label", "--order", "sorted"],
        ["nowhere.csv"],
        ["TABLE", "--label", "none of them"],
    ],
)
def test_wrong_options_are_an_error_of_one_line(args, table, tmp_path, capsys):
    given = [str(table) if arg == "TABLE" else arg for arg in args]
    assert main(["studio", *given, "--out", str(tmp_path / "s"), "--no-browser"]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert not (tmp_path / "s" / "journal.jsonl").exists() or "--order" in args
