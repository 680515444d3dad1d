import numpy as np
import pytest
from typer.testing import CliRunner

from glnn.cli.data_command import app
from glnn.data import NodeData, datasets, read_data, write_data
from glnn.exceptions import GlnnError, InputError

runner = CliRunner()


@pytest.fixture
def record():
    return NodeData.from_arrays(np.eye(3), [0, 1, -1], edges=[[0, 1]])


def run(*arguments):
    return runner.invoke(app, [str(argument) for argument in arguments], env={"COLUMNS": "200"})


def test_convert_does_not_replace_a_file_unasked(record, tmp_path):
    write_data(record, tmp_path / "r.npz")
    refused = run("convert", tmp_path / "r.npz", tmp_path / "r.npz")
    assert isinstance(refused.exception, InputError)
    assert "--overwrite" in str(refused.exception)
    assert run("convert", tmp_path / "r.npz", tmp_path / "r.npz", "--overwrite").exit_code == 0


def test_info_shows_names_as_they_are(tmp_path):
    odd = NodeData.from_arrays(np.eye(2), [0, 1], class_names=("[bold]b", ":smile:"))
    write_data(odd, tmp_path / "odd.npz")
    assert "[bold]b (1), :smile: (1)" in run("info", tmp_path / "odd.npz").stdout


@pytest.mark.parametrize(
    "arguments", [("info", "coraa"), ("convert", "nothing.csv", "x.npz"), ("fetch", "wine")]
)
def test_bad_input_is_one_line_of_glnn(arguments):
    result = run(*arguments)
    assert isinstance(result.exception, GlnnError)
    assert "\n" not in str(result.exception)


def test_fetch_tells_where_the_set_is(monkeypatch, tmp_path):
    def pretend(name, *, folder, show_progress):
        return folder / f"{name}.npz"

    monkeypatch.setattr(datasets, "fetch_dataset", pretend)
    result = run("fetch", "cora", "--folder", tmp_path)
    assert result.exit_code == 0, result.exception
    assert "cora.npz" in result.stdout


PEOPLE = "name,city,age,job\nann,Rome,30,cook\nbob,Bern,,pilot\ncy,Rome,50,\n"
AS_FIT = ("--id", "name", "--label", "job", "--encode", "onehot", "--missing", "median")


def test_convert_takes_the_options_of_fit_and_graph_means_the_same(tmp_path):
    (tmp_path / "p.csv").write_text(PEOPLE)
    (tmp_path / "f.csv").write_text("source,target\nann,bob\n")
    words = ("--graph", tmp_path / "f.csv", "--drop", "a*")
    done = run("convert", tmp_path / "p.csv", tmp_path / "p.npz", *AS_FIT, *words)
    assert done.exit_code == 0, done.exception
    data = read_data(tmp_path / "p.npz")
    assert (data.n_edges, data.class_names) == (1, ("cook", "pilot"))
    assert data.feature_names == ("city=Bern", "city=Rome")


STATES = "id,x,status\na,1.5,u\nb,2.5,v\nc,3.5,\nd,4.5,u\ne,5.5,v\n"


def test_info_asks_for_the_label_column_as_fit_does(tmp_path):
    (tmp_path / "p.csv").write_text(STATES)
    assert "Is it 'status'? Then add --label 'status'." in run("info", tmp_path / "p.csv").output
    shown = run("info", tmp_path / "p.csv", "--label", "status")
    assert "u (2), v (2)" in shown.stdout


def test_sets_and_their_facts_are_listed(glnn):
    lines = [line.split() for line in glnn("data", "list").out.splitlines()]
    assert ["wine", "178", "0"] in [words[:3] for words in lines]
    facts = dict(line.split(":", 1) for line in glnn("data", "info", "wine").out.splitlines())
    assert facts["nodes"].strip() == "178" and facts["edges"].strip() == "no graph"
