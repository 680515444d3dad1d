import dataclasses
import json
import shutil

import networkx as nx
import pandas as pd
import pytest

from glnn import GLNNClassifier
from glnn.cli.commands import health_rows
from glnn.cli.main import BAD_INPUT, main
from glnn.report.results import read_results, write_results
from glnn.report.text import suggestions

# glnn report


def test_the_page_of_a_run_is_made_again(finished, tmp_path, capsys):
    again = tmp_path / "again.html"
    assert main(["report", str(finished / "run"), "--out", str(again)]) == 0
    assert capsys.readouterr().out.strip() == str(again)
    first = (finished / "run" / "report.html").read_text(encoding="utf-8")
    assert again.read_text(encoding="utf-8").split("<script")[0] == first.split("<script")[0]


# glnn export


def test_a_run_is_exported_with_its_ids_and_classes(finished, tmp_path, capsys):
    out = tmp_path / "out"
    assert main(["export", str(finished / "run"), "--to", "graphml", "--out", str(out)]) == 0
    network = nx.read_graphml(capsys.readouterr().out.strip())
    predicted = pd.read_csv(finished / "run" / "predictions.csv", keep_default_na=False)
    assert dict(network.nodes(data="given_label")) == dict(
        zip(predicted["id"], predicted["given_label"])
    )
    assert set(nx.get_edge_attributes(network, "origin").values()) <= {"given", "learned"}


@pytest.mark.parametrize("args", [["--to", "dot"], []])
def test_a_format_must_be_named_and_known(finished, args, capsys):
    assert main(["export", str(finished / "run"), *args]) == BAD_INPUT
    assert "--to" in capsys.readouterr().err


# glnn compare


def test_runs_stand_side_by_side_and_machines_get_json(finished, capsys):
    both = ["compare", str(finished / "run"), str(finished / "run")]
    assert main(both) == 0
    printed = capsys.readouterr().out
    assert "Pairs, on common nodes" in printed and "100.0 %" in printed
    assert main([*both, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["pairs"][0]["same_predictions"] == 1 and len(found["runs"]) == 2
    assert main(both[:2]) == BAD_INPUT and "two runs" in capsys.readouterr().err


# glnn explain


@pytest.fixture
def run(finished):
    return finished / "run"


def test_a_node_is_explained_by_ids_in_words_and_as_json(glnn, run):
    line = (run / "predictions.csv").read_text().splitlines()[1].split(",")
    assert line[:2] == ["p0", "cook"]
    outcome = glnn("explain", run, "p0")
    head = " ".join(outcome.out.split("Heaviest")[0].split())
    said = f"p0: predicted {line[2]} ({100 * float(line[3]):.1f} %) without its label"
    assert outcome.code == 0 and head.startswith(said) and "similar in" in outcome.out
    assert max(map(len, outcome.out.splitlines())) <= 80
    page = json.loads(glnn("explain", run, "p0", "--json", "--links", 3).out)
    assert page["without_its_label"]["probability"] == pytest.approx(float(line[3]), rel=1e-5)
    assert page["id"] == "p0" and page["calibrated"] and 0 < len(page["links"]) <= 3
    for link in page["links"]:
        assert sum(link["terms"].values()) == pytest.approx(link["weight"], abs=1e-6)
    assert json.loads(glnn("explain", run, "p30", "--json").out)["without_its_label"] is None
    assert glnn("explain", run, "q0").is_bad_input("Did you mean")


# glnn suggest


def test_suggestions_are_those_of_the_model(glnn, run):
    ranked = GLNNClassifier.load(run).suggest_labels(12)
    found = json.loads(glnn("suggest", run, "-k", 12, "--json").out)
    assert [one["id"] for one in found] == ranked["name"].tolist()
    assert [one["predicted"] for one in found] == ranked["predicted"].tolist()
    printed = glnn("suggest", run, "-k", 3).out
    assert max(map(len, printed.splitlines())) <= 80
    assert [name for name in ranked["name"] if name in printed] == ranked["name"].tolist()[:3]
    stored = read_results(run)
    fewer = dataclasses.replace(stored, suggestions=stored.suggestions[:2])
    assert [one["id"] for one in suggestions(fewer, run, 12)] == ranked["name"].tolist()


def test_text_of_the_data_is_printed_as_it_is(glnn, run, tmp_path):
    odd = dataclasses.replace(
        read_results(run), id_name="[/b]", class_names=(":smile:", "[red]pilot")
    )
    write_results(tmp_path / "results.npz", odd)
    printed = glnn("suggest", tmp_path, "-k", 9).out
    assert "[/b]" in printed and ":smile:" in printed and "[red]pilot" in printed
    write_results(tmp_path / "results.npz", dataclasses.replace(odd, id_name="predicted"))
    assert glnn("suggest", tmp_path, "-k", 2).code == 0
    first, _ = json.loads(glnn("suggest", tmp_path, "-k", 2, "--json").out)
    assert first["id"] == odd.ids[odd.suggestions[0]]


# glnn predict


def test_new_rows_are_printed_or_written_with_all_probabilities(glnn, run, finished):
    outcome = glnn("predict", run, finished / "new.csv")
    lines = [line.split(",") for line in outcome.out.splitlines()]
    assert outcome.code == 0 and lines[0] == ["id", "predicted", "probability"]
    assert [line[:2] for line in lines[1:]] == [["n0", "cook"], ["n1", "pilot"]]
    assert all(0.5 <= float(line[2]) <= 1 for line in lines[1:])
    table = finished / "labelled.csv"
    table.write_text("id,height,age,job\nn0,0.1,0.2,cook\nn1,4.1,-3.9,cook\np0,1,1,cook\n")
    outcome = glnn("predict", run, table, "--out", finished / "found.csv")
    assert "3 rows" in outcome.out
    assert "accuracy on 2 rows with a label not used in training: 50.0 % [" in outcome.err
    first = (finished / "found.csv").read_text().splitlines()[0]
    assert first == "id,predicted,probability,p(cook),p(pilot)"


def test_links_of_new_rows_count_and_must_name_known_rows(glnn, run, finished):
    links, new = finished / "links.csv", finished / "new.csv"
    how = ("predict", run, new, "--links", links)
    links.write_text("source,target\nn0,p1\np3,n0\np0,p2\n")
    linked = glnn(*how)
    assert linked.code == 0 and "left out 1 edges" in linked.err
    assert linked.out != glnn("predict", run, new).out
    links.write_text("source,target\nn0,ghost\n")
    assert glnn(*how).is_bad_input("1 unknown id", "'ghost'")
    (finished / "old.csv").write_text("id,height,age\np0,1,1\n")
    assert glnn(*how[:2], finished / "old.csv", *how[3:]).is_bad_input("must differ", "'p0'")
    (finished / "twice.csv").write_text("id,height,age\nn0,1,1\nn0,2,2\n")
    assert glnn(*how[:2], finished / "twice.csv", *how[3:]).is_bad_input("'n0' twice", "--links")


@pytest.mark.parametrize("command", ["report", "explain", "predict", "suggest"])
def test_what_is_no_whole_run_is_one_line(glnn, run, finished, tmp_path, command):
    more = {"explain": ("p0",), "predict": (finished / "new.csv",)}.get(command, ())
    assert glnn(command, tmp_path / "none", *more).is_bad_input("none", "glnn fit")
    broken = shutil.copytree(run, tmp_path / "broken")
    for name in ("model.safetensors", "results.npz"):
        (broken / name).write_bytes(b"")
    assert glnn(command, broken, *more).is_bad_input("broken")


# glnn tune

pytest.importorskip("optuna")


def test_a_search_is_said_line_by_line_and_a_fit_uses_it(glnn, people, monkeypatch):
    monkeypatch.chdir(people)
    table = ["people.csv", "--labels", "jobs.csv", "--label", "job", "--epochs", 3]
    out = ["--trials", 2, "--folds", 2, "--out", "tuned"]
    outcome = glnn("tune", *table, *out, "--nested", 0)
    assert outcome.code == 0, outcome.err
    assert outcome.out.startswith("2 fits for the search, 0 for its nested estimate\ntrial   1")
    page = json.loads((people / "tuned" / "tuning.json").read_text())
    assert page["nested"] is None
    how = ["--preset", "tuned/tuning.json", "--set", "n_steps=2"]
    fit = glnn("fit", *table, *how, "--out", "run", "--folds", 0)
    assert fit.code == 0, fit.err
    settings = json.loads((people / "run" / "metrics.json").read_text())["settings"]
    head = settings["track"]["features"]["head"]
    assert head["n_steps"] == 2 and head["n_epochs"] == 3
    shown = (people / "run" / "report.html").read_text()
    assert "Hyperparameter search" in shown and "2 trials of" in shown


def test_packages_and_data_are_named_with_what_is_missing(monkeypatch, tmp_path):
    (tmp_path / "cora.npz").touch()
    monkeypatch.setenv("GLNN_DATA", str(tmp_path))
    monkeypatch.setattr("glnn.report.text.find_version", lambda package: None)
    rows = list(health_rows())
    assert {subject for is_ok, subject, _ in rows if not is_ok} >= {"matplotlib", "pyarrow"}
    words = {subject: text for _, subject, text in rows[::-1]}
    assert words["data folder"] == f"{tmp_path}: cora"
    assert "glnn[report]" in words["matplotlib"] and "glnn[tables]" in words["pyarrow"]
    assert {"glnn", "torch", "cpu"} <= set(words)
