import json
import shutil

import networkx as nx
import pandas as pd
import pytest

from glnn.cli.main import BAD_INPUT, main

# glnn doctor


def test_the_doctor_fits_one_screen_and_proves_a_small_graph(glnn):
    outcome = glnn("doctor")
    assert outcome.code == 0
    assert outcome.err == ""
    assert len(outcome.out.splitlines()) <= 40
    for word in ("torch", "cpu", "data folder", "optimal", "self-test"):
        assert word in outcome.out


def test_machines_get_the_same_rows_as_json(glnn):
    rows = json.loads(glnn("doctor", "--json").out)
    assert {row["state"] for row in rows} <= {"ok", "note"}
    assert "self-test" in [row["subject"] for row in rows]


@pytest.mark.parametrize("state", ["note", "bad"])
def test_hints_keep_their_brackets_and_a_fault_is_an_exit_code(glnn, monkeypatch, state):
    hint = "not installed; install it with: pip install 'glnn[report]'"
    monkeypatch.setattr("glnn.report.health.health_rows", lambda: [(state, "matplotlib", hint)])
    outcome = glnn("doctor")
    assert hint in outcome.out
    assert outcome.code == (1 if state == "bad" else 0)


# glnn report


def test_the_page_of_a_run_is_made_again(finished, tmp_path, capsys):
    again = tmp_path / "again.html"
    assert main(["report", str(finished / "run"), "--out", str(again)]) == 0
    assert capsys.readouterr().out.strip() == str(again)
    first = (finished / "run" / "report.html").read_text(encoding="utf-8")
    assert again.read_text(encoding="utf-8").split("<script")[0] == first.split("<script")[0]


def test_a_folder_that_is_no_run_is_one_line(tmp_path, capsys):
    assert main(["report", str(tmp_path)]) == BAD_INPUT
    assert "folder of a run" in capsys.readouterr().err


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


def test_runs_stand_side_by_side(finished, capsys):
    assert main(["compare", str(finished / "run"), str(finished / "run")]) == 0
    printed = capsys.readouterr().out
    assert "Pairs, on common nodes" in printed
    assert "100.0 %" in printed


def test_machines_get_json(finished, capsys):
    assert main(["compare", str(finished / "run"), str(finished / "run"), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["pairs"][0]["same_predictions"] == 1
    assert len(found["runs"]) == 2


def test_one_run_is_one_line(finished, capsys):
    assert main(["compare", str(finished / "run")]) == BAD_INPUT
    assert "two runs" in capsys.readouterr().err


# glnn explain


@pytest.fixture
def run(finished):
    return finished / "run"


def test_links_and_labels_of_a_node_are_printed_by_their_ids(glnn, run):
    outcome = glnn("explain", run, "p0")
    assert outcome.code == 0
    assert outcome.out.startswith("p0: predicted ")
    for words in (
        "Heaviest links, and the contribution of each term",
        "Effects of labels are not measured",
        "similarity",
    ):
        assert words in outcome.out


def test_a_labelled_node_has_the_confidence_of_the_predictions_first(glnn, run):
    line = (run / "predictions.csv").read_text().splitlines()[1].split(",")
    assert line[:2] == ["p0", "cook"]
    head = " ".join(glnn("explain", run, "p0").out.split("Heaviest")[0].split())
    said = f"p0: predicted {line[2]} ({100 * float(line[3]):.1f} %) without its label"
    assert head.startswith(said)
    assert "with its label, as explained here" in head
    page = json.loads(glnn("explain", run, "p0", "--json").out)
    assert page["without_its_label"]["probability"] == pytest.approx(float(line[3]), rel=1e-5)
    assert page["calibrated"] is True
    other = json.loads(glnn("explain", run, "p30", "--json").out)
    assert other["without_its_label"] is None


def test_json_has_terms_that_sum_to_the_weight_of_every_link(glnn, run):
    page = json.loads(glnn("explain", run, "p1", "--json", "--links", 3).out)
    assert page["id"] == "p1" and 0 < len(page["links"]) <= 3
    for link in page["links"]:
        assert sum(link["terms"].values()) == pytest.approx(link["weight"], abs=1e-6)
    assert page["label_effects"] == [] and page["is_measured"] is False


def test_an_unknown_id_is_one_line_with_the_nearest_one(glnn, run):
    outcome = glnn("explain", run, "q0")
    assert outcome.code == 2
    assert outcome.err.count("\n") == 1
    assert "Did you mean" in outcome.err


def test_a_folder_without_a_run_is_one_line(glnn, tmp_path):
    outcome = glnn("explain", tmp_path, "p0")
    assert outcome.code == 2
    assert "must be a run folder" in outcome.err


# glnn predict


@pytest.fixture
def home(finished):
    return finished


def test_new_rows_are_printed_as_csv_with_their_ids(glnn, run, home):
    outcome = glnn("predict", run, home / "new.csv")
    assert outcome.code == 0
    lines = [line.split(",") for line in outcome.out.splitlines()]
    assert lines[0] == ["id", "label", "probability"]
    assert [line[:2] for line in lines[1:]] == [["n0", "cook"], ["n1", "pilot"]]
    assert all(0.5 <= float(line[2]) <= 1 for line in lines[1:])


def test_new_rows_are_written_with_all_probabilities(glnn, run, home):
    outcome = glnn("predict", run, home / "new.csv", "--out", home / "found.csv")
    assert outcome.code == 0
    assert "2 rows" in outcome.out
    first = (home / "found.csv").read_text().splitlines()[0]
    assert first == "id,predicted,probability,p(cook),p(pilot)"


def test_links_of_new_rows_count(glnn, run, home):
    (home / "links.csv").write_text("source,target\nn0,p1\np3,n0\np0,p2\n")
    alone = glnn("predict", run, home / "new.csv").out
    linked = glnn("predict", run, home / "new.csv", "--links", home / "links.csv")
    assert linked.code == 0
    assert "left out 1 edges" in linked.err
    assert linked.out != alone


def test_known_labels_of_new_rows_give_an_accuracy(glnn, run, home):
    table = home / "labelled.csv"
    table.write_text("id,height,age,job\nn0,0.1,0.2,cook\nn1,4.1,-3.9,cook\n")
    said = "accuracy on 2 rows with a label not used in training: 50.0 % [5.5, 94.5]"
    assert said in glnn("predict", run, table).err


def test_labels_that_trained_give_no_accuracy(glnn, run, home):
    rows = (home / "people.csv").read_text().splitlines()[1:11]  # those with a label
    jobs = ("cook", "pilot")
    lines = [f"{row},{jobs[k % 2]}" for k, row in enumerate(rows)]
    table = home / "again.csv"
    table.write_text("\n".join(["id,height,age,job", *lines, ""]))
    outcome = glnn("predict", run, table)
    assert outcome.code == 0
    assert "no accuracy" in outcome.err and "10 rows used in training" in outcome.err
    assert "%" not in outcome.err
    table.write_text("\n".join(["id,height,age,job", *lines, "n0,0.1,0.2,cook", ""]))
    mixed = glnn("predict", run, table).err
    assert "accuracy on 1 row with a label not used in training: 100.0 % [" in mixed
    assert "left out 10 rows" in mixed


def test_further_columns_of_any_kind_are_left_out_and_named(glnn, run, home):
    (home / "more.csv").write_text("id,height,age,city\nn0,0.1,0.2,Rome\n")
    outcome = glnn("predict", run, home / "more.csv")
    assert outcome.code == 0
    assert "left out columns 'city'" in outcome.err


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("id,height\nn0,1\n", ("columns of the training data", "'age'")),
        ("id,height,age\nn0,1,nan\n", ("'age'", "row 1")),
        ("id,height,age\nn0,1\n", ("'age'", "row 1")),
        ("id,height,age\n", ("at least one row",)),
    ],
)
def test_bad_tables_are_one_line(glnn, run, home, text, words):
    (home / "bad.csv").write_text(text)
    assert glnn("predict", run, home / "bad.csv").is_bad_input(*words)


def test_missing_files_are_one_line(glnn, run, home):
    assert glnn("predict", run, home / "none.csv").is_bad_input("none.csv")
    assert glnn("predict", home / "norun", home / "new.csv").is_bad_input("norun", "glnn fit")
    missing = ("--links", home / "none.csv")
    assert glnn("predict", run, home / "new.csv", *missing).is_bad_input("none.csv")


def test_a_folder_without_its_model_is_one_line(glnn, run, home):
    broken = home / "broken"
    shutil.copytree(run, broken)
    (broken / "model.safetensors").write_bytes(b"")
    assert glnn("predict", broken, home / "new.csv").is_bad_input("model.safetensors")
    (broken / "data.json").write_text("[]")
    assert glnn("predict", broken, home / "new.csv").is_bad_input("data.json")


def test_links_to_unknown_ids_are_one_line(glnn, run, home):
    (home / "links.csv").write_text("source,target\nn0,ghost\n")
    args = ("predict", run, home / "new.csv", "--links", home / "links.csv")
    assert glnn(*args).is_bad_input("1 unknown id", "'ghost'")


def test_ids_that_training_had_cannot_be_linked(glnn, run, home):
    (home / "again.csv").write_text("id,height,age\np0,1,1\n")
    (home / "links.csv").write_text("source,target\np0,p1\n")
    args = ("predict", run, home / "again.csv", "--links", home / "links.csv")
    assert glnn(*args).is_bad_input("must differ", "'p0'")


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
    page["params"] = {"n_steps": 2}
    (people / "mine.json").write_text(json.dumps(page))
    fit = glnn("fit", *table, "--settings", "mine.json", "--out", "run", "--no-estimate")
    assert fit.code == 0, fit.err
    settings = json.loads((people / "run" / "metrics.json").read_text())["settings"]
    head = settings["track"]["features"]["head"]
    assert head["n_steps"] == 2 and head["n_epochs"] == 3
    shown = (people / "run" / "report.html").read_text()
    assert "Hyperparameter search" in shown and "2 trials of" in shown


def test_one_outer_fold_is_no_estimate(glnn):
    outcome = glnn("tune", "blobs", "--nested", 1)
    assert outcome.code == 2 and "--nested" in outcome.err
