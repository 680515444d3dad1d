import contextlib
import dataclasses
import html
import io
import json
import os
import signal
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from rich.console import Console

from glnn import GLNNClassifier, evaluation
from glnn.cli.fit_command import StageProgress, stop_on_signal
from glnn.data import Split, load_dataset
from glnn.data.npz import write_node_npz
from glnn.engine.callbacks import Progress
from glnn.engine.checkpoint import Checkpoint
from glnn.engine.fit_problem import hide_labels
from glnn.exceptions import GlnnError, StoppedError
from glnn.report.results import read_results
from glnn.report.run_folder import RUN_FILES, state_folder
from glnn.report.text import UNCALIBRATED

# The command

RIVALLED = ("--epochs", "5", "--set", "n_rounds=1")
QUICK = (*RIVALLED, "--rivals", "none")
ONE_TRACK = ("--preset", "paper", *QUICK)  # where any fit will do


def test_an_embedded_set_leaves_a_whole_run_folder_and_what_was_measured(glnn, tmp_path):
    run = tmp_path / "run"
    outcome = glnn("fit", "wine", "--labels-per-class", 4, "--out", run, *RIVALLED)
    assert (outcome.code, outcome.err) == (0, "")
    assert sorted(path.name for path in run.iterdir()) == sorted(RUN_FILES)
    assert "one fit, 5 folds, 4 rivals" in outcome.out
    for word in ("GLNN", "boosted trees", "lead of this fit", "by chance", "glnn suggest"):
        assert word in outcome.out
    assert str(run / "report.html") in outcome.out.replace("\n", "")
    metrics = json.loads((run / "metrics.json").read_text())
    split, graph = Split.load(run / "split.json"), sp.load_npz(run / "graph.npz")
    model = GLNNClassifier.load(run)
    lines = (run / "predictions.csv").read_text().splitlines()
    assert metrics["labels"]["n_train"] == split.train.size == 12
    assert metrics["graph"]["n_edges"] == sp.triu(graph, k=1).nnz
    assert (graph != model.graph_).nnz == 0
    proven = dataclasses.asdict(model.certificate_)
    assert metrics["certificate"] == proven | {"notes": list(proven["notes"])}
    for name, track in metrics["settings"]["track"].items():
        assert track["head"]["n_epochs"] == 5, name
    assert metrics["settings"]["chosen"] == model.choices_
    assert [line.split(",")[2] for line in lines[1:]] == [str(c) for c in model.transduction_]
    assert len((run / "history.jsonl").read_text().splitlines()) == model.n_iter_


def test_noise_is_no_better_than_chance_on_test_labels_too(glnn, tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(300, 4)), columns=list("abcd"))
    frame.assign(label=rng.choice(list("xyz"), 300)).to_csv(tmp_path / "noise.csv", index=False)
    run = tmp_path / "run"
    outcome = glnn("fit", tmp_path / "noise.csv", "--labels-per-class", 15, "--out", run, *RIVALLED)
    found = json.loads((run / "metrics.json").read_text())
    assert found["evaluation"]["comparison"]["kind"] == "chance"
    assert not found["evaluation"]["comparison"]["rival_beats_chance"]
    assert found["verdict"] in outcome.out
    assert found["verdict"] in html.unescape((run / "report.html").read_text())


def test_a_name_inside_a_file_never_chooses_a_path(glnn, tmp_path, monkeypatch):
    (tmp_path / "a" / "b" / "c").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "a" / "b" / "c")
    write_node_npz(dataclasses.replace(load_dataset("blobs"), name="../../../esc"), "x.npz")
    assert glnn("fit", "x.npz", "--labels-per-class", 3, *ONE_TRACK, "--quiet").code == 0
    assert Path("runs/esc-paper-0/model.json").is_file()
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


@pytest.mark.parametrize(
    ("preset", "step", "left"),
    [
        ("default", (Checkpoint, "save"), "checkpoint.json"),
        ("literal", (evaluation, "_refit"), "folds/fold-*"),  # which is fitted for each fold
    ],
    ids=["rounds", "folds"],
)
def test_a_request_to_end_saves_and_says_how_to_go_on(
    glnn, tmp_path, monkeypatch, preset, step, left
):
    fit = ("fit", "blobs", "--labels-per-class", 3, "--folds", 2, "--preset", preset)
    fit += ("--epochs", "2", "--rivals", "none", "--quiet")
    assert glnn(*fit, "--out", tmp_path / "straight").code == 0
    taken, take = [], getattr(*step)

    def interrupted(self, *args):
        taken.append(args)
        if len(taken) == 2:
            os.kill(os.getpid(), signal.SIGTERM)
        return take(self, *args)

    monkeypatch.setattr(*step, interrupted)
    outcome = glnn(*fit, "--out", tmp_path / "run")
    assert outcome.code == 128 + signal.SIGTERM
    assert "Resume it with: " in outcome.err and "--resume" in outcome.err
    assert list(state_folder(tmp_path / "run").glob(left))
    assert glnn(*fit, "--out", tmp_path / "run", "--resume") == (0, "", "")
    for name in ("model.safetensors", "predictions.csv", "graph.npz", "history.jsonl"):
        assert (tmp_path / "run" / name).read_bytes() == (tmp_path / "straight" / name).read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run", "straight"]
    assert "already finished" in glnn(*fit[:-1], "--out", tmp_path / "run", "--resume").out


def test_a_state_of_another_fit_is_refused_and_starting_anew_removes_it(glnn, tmp_path):
    fit = ("fit", "blobs", "--labels-per-class", 3, *ONE_TRACK, "--quiet")
    fit += ("--out", tmp_path / "run")
    state = state_folder(tmp_path / "run")
    assert glnn(*fit, "--checkpoint", state).code == 0
    assert glnn(*fit, "--resume", "--seed", 1).is_bad_input("of this very fit")
    assert (state / "checkpoint.json").is_file()
    assert glnn(*fit, "--overwrite", "--seed", 1).code == 0
    assert not state.exists()


@pytest.mark.parametrize("error", [GlnnError("no"), MemoryError()])
def test_a_fit_that_fails_before_its_first_round_leaves_nothing(glnn, tmp_path, monkeypatch, error):
    def fail(*args, **named):
        raise error

    monkeypatch.setattr(GLNNClassifier, "fit", fail)
    assert glnn("fit", "blobs", "--out", tmp_path / "run", *QUICK).code == 1
    assert list(tmp_path.iterdir()) == []


def test_a_fit_beyond_the_free_memory_says_what_it_needs(glnn, tmp_path, monkeypatch):
    fit = ("fit", "wine", "--out", tmp_path / "run", *QUICK)
    monkeypatch.setattr("glnn.engine.fit.free_bytes", lambda: 1000)
    assert glnn(*fit).is_bad_input("needs about", "n_candidates")
    assert list(tmp_path.iterdir()) == []


def test_an_own_table_with_labels_and_graph(glnn, people):
    run = people / "run"
    args = ("--labels", people / "jobs.csv", "--graph", people / "friends.csv", "--label", "job")
    fit = ("fit", people / "people.csv", *args, "--id", "id", "--out", run)
    outcome = glnn(*fit, *ONE_TRACK, "--verbose")
    assert outcome.code == 0
    assert "all used for training" in outcome.out
    lines = (run / "predictions.csv").read_text().splitlines()
    assert lines[0].startswith("id,given_label,predicted,probability,")
    assert lines[1].startswith("p0,")
    metrics = json.loads((run / "metrics.json").read_text())
    assert metrics["data"]["classes"] == ["cook", "pilot"]
    assert metrics["graph"]["n_given"] == 40
    assert "certificate: optimal" in outcome.out


def test_what_the_solver_says_of_a_small_table_is_told_only_to_those_who_ask(glnn, people):
    fit = ("fit", *own_table(people), "--folds", 0, "--set", "n_neighbors=100", "--overwrite")
    plain, verbose = (
        glnn(*fit, "--out", people / "run", *ONE_TRACK, *more).out for more in ((), ("--verbose",))
    )
    (note,) = GLNNClassifier.load(people / "run").certificate_.notes
    assert "added neighbours should be 100" in note  # of 40 rows
    assert note in " ".join(verbose.split())
    assert not [
        word for word in ("added neighbours", "sparsity", "certificate", "mixture") if word in plain
    ]
    assert note not in html.unescape(
        (people / "run" / "report.html").read_text().partition("<details")[0]
    )


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("digts",), ("digts", "Did you mean 'digits'?")),
        (("digits", "--preset", "papr"), ("preset", "Did you mean 'paper'?")),
        (("digits", "--set", "head=gnc"), ("head", "Did you mean 'gcn'?")),
        (("digits", "--labels-per-class", "9999"), ("n_per_class", "9999")),
        (("digits", "--epochs", "0"), ("n_epochs", "0")),
        (("digits", "--set", "n_neighbours=3"), ("--set", "Did you mean 'n_neighbors'?")),
        (("digits", "--folds", "1"), ("--folds", "0 or at least 2")),
        (("digits", "--seed", "-1"), ("--seed", "-1")),
        (("digits", "--device", "cuda:99"), ("device", "cuda:99")),
        (("digits", "--label", "x"), ("--label", "digits")),
        (("digits", "--set", "class_weight=foo"), ("class_weight", "'foo'")),
    ],
)
def test_bad_options_are_one_line(glnn, tmp_path, args, words):
    assert glnn("fit", *args, "--out", tmp_path / "run").is_bad_input(*words)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("id,x,label\na,1,u\nb,2,v,w\n", ("4 instead of 3 in line 3",)),
        ("id,x,label\na,1,-1\nb,2,1\n", ("'-1'",)),
        (
            "id,x,status\na,1.5,u\nb,2.5,v\nc,3.5,\nd,4.5,u\ne,5.5,v\n",
            ("Is it 'status'?", "Type: glnn fit ", "table.csv --out ", " --label status"),
        ),
        ("id,x\na,1.5\nb,2.5\n", ("must have labels", "--labels")),
    ],
)
def test_bad_tables_are_one_line(glnn, tmp_path, text, words):
    table = tmp_path / "table.csv"
    table.write_text(text)
    assert glnn("fit", table, "--out", tmp_path / "run").is_bad_input(*words)
    assert not (tmp_path / "run").exists()


def test_a_messy_table_with_its_edges_is_fitted_and_predicted(glnn, tmp_path):
    rng, n = np.random.default_rng(0), 60
    frame = pd.DataFrame({"customer_id": [f"{k:03d}" for k in range(n)], "row": np.arange(n) + 1})
    frame["age"] = ["?", "", *map(str, rng.integers(20, 80, n - 2))]
    frame["pay"] = [f"${pay:,}.00" for pay in rng.integers(500, 5000, n)]
    frame["city"] = rng.choice(["Zürich", "Genève"], n)
    frame["since"] = [f"2020-01-{k % 28 + 1:02d}" for k in range(n)]
    frame["segment"] = [*["loyal", "lost"] * 20, *[""] * 19, "unknown"]
    ends = {
        "nr": np.arange(n),
        "from_id": frame["customer_id"],
        "to_id": frame["customer_id"][::-1],
    }
    pd.DataFrame({**{k: np.array(v) for k, v in ends.items()}, "strength": 0.5}).to_csv(
        tmp_path / "edges.csv", index=False
    )
    table, run = tmp_path / "mine.csv.gz", tmp_path / "run"
    frame.to_csv(table, index=False)
    quick = ("--folds", 0, "--out", run, *ONE_TRACK)
    done = glnn("fit", table, "--label", "segment", "--graph", tmp_path / "edges.csv", *quick)
    assert done.code == 0, done
    results = read_results(run)
    assert dict(results.readings) == {
        "customer_id": "id",
        "row": "left out: numbers the rows",
        "age": dict(results.readings)["age"],
        "pay": "number, without '$'",
        "city": "category: 2 values, one column each",
        "since": "date: days since 2020-01-01",
        "segment": "label",
    }
    assert dict(results.readings)["age"].startswith("number; 2 gaps filled with the median")
    assert (results.given.nnz, set(results.given.data)) == (60, {0.5})
    assert results.class_names == ("lost", "loyal") and (results.labels == -1).sum() == 20
    new = tmp_path / "new.jsonl"
    frame.drop(columns=["row", "segment"]).iloc[:3].to_json(new, orient="records", lines=True)
    answers = glnn("predict", run, new).out.splitlines()
    assert [line.split(",")[0] for line in answers[1:]] == ["000", "001", "002"]


def test_groups_and_times_reach_the_folds_and_are_no_features(glnn, tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(60, 3)), columns=list("abc"))
    frame["patient"] = [f"p{k // 3}" for k in range(60)]
    frame["day"] = pd.date_range("2020-01-01", periods=60).strftime("%Y-%m-%d")
    frame["label"] = np.where(np.arange(60) % 2, "x", "y")
    frame.to_csv(tmp_path / "visits.csv", index=False)
    given = {}

    def keep(problem, n_folds, seed, groups, times):
        given.update(groups=groups, times=times)
        return hide_labels(problem, n_folds, seed, groups, times)

    monkeypatch.setattr("glnn.estimator.hide_labels", keep)
    run = tmp_path / "run"
    how = ("fit", tmp_path / "visits.csv", "--folds", 2, "--out", run, "--overwrite", *ONE_TRACK)
    assert glnn(*how, "--group", "patient", "--drop", "day").code == 0
    assert given["groups"].tolist() == frame["patient"].tolist() and given["times"] is None
    assert GLNNClassifier.load(run).n_features_in_ == 3
    assert glnn(*how, "--time", "day", "--drop", "patient").code == 0
    assert np.diff(given["times"]).tolist() == [1.0] * 59 and given["groups"] is None
    assert GLNNClassifier.load(run).n_features_in_ == 3
    wrong = glnn("fit", tmp_path / "visits.csv", "--group", "patients", "--out", tmp_path / "b")
    assert wrong.is_bad_input("the group column", "Did you mean 'patient'")
    assert glnn("fit", "blobs", "--time", "day").is_bad_input("--time must come with a table")


def own_table(people):
    return people / "people.csv", "--labels", people / "jobs.csv", "--label", "job"


def test_the_verdict_comes_first_and_folds_judge_an_own_table(glnn, people, tmp_path):
    run = tmp_path / "run"
    outcome = glnn("fit", *own_table(people), "--folds", 2, "--out", run, *RIVALLED)
    assert outcome.code == 0
    page = json.loads((run / "metrics.json").read_text())
    assert page["evaluation"]["n_folds"] == 2
    after_progress = outcome.out.split("fold 2 of 2", 1)[1].split("\n\n", 1)[1]
    assert after_progress.startswith(page["verdict"])
    assert page["verdict"] == page["evaluation"]["verdict"]
    assert page["calibrated"] is True
    assert UNCALIBRATED not in outcome.out


def test_with_one_label_a_class_all_say_the_same_and_advise_what_can_be_done(glnn, people):
    (people / "jobs.csv").write_text("id,job\np0,cook\np1,pilot\n")
    run = people / "run"
    outcome = glnn("fit", *own_table(people), "--out", run, *QUICK)
    sentence = "too few labels to tell: 2"
    assert json.loads((run / "metrics.json").read_text())["verdict"] == sentence
    assert sentence in outcome.out
    page = (run / "report.html").read_text()
    assert sentence in page
    for text in (outcome.out, page.partition("<script")[0]):
        assert "label more nodes" in text
        assert "--folds" not in text
    assert UNCALIBRATED in outcome.out


def test_without_folds_there_is_no_fit_beside_the_one(glnn, people, tmp_path):
    run = tmp_path / "run"
    outcome = glnn("fit", *own_table(people), "--folds", 0, "--out", run, *ONE_TRACK)
    assert outcome.code == 0
    assert "fold 1" not in outcome.out
    page = json.loads((run / "metrics.json").read_text())
    assert page["evaluation"] is None
    assert page["calibrated"] is False
    assert UNCALIBRATED in outcome.out
    assert UNCALIBRATED[1:] in html.unescape((run / "report.html").read_text())
    assert UNCALIBRATED in glnn("predict", run, people / "new.csv").err
    assert UNCALIBRATED[1:] in " ".join(glnn("explain", run, "p0").out.split())


# Interruption


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_request_ends_the_work_after_its_step(number, capsys):
    seen = []
    with (
        pytest.raises(StoppedError, match="Go on") as caught,
        stop_on_signal("Go on so.") as stoppable,
    ):
        watch = stoppable(seen.append)
        watch(1)
        os.kill(os.getpid(), number)
        seen.append("the step goes on")
        watch(2)
    assert seen == [1, "the step goes on"]
    assert caught.value.code == 128 + number
    assert capsys.readouterr().err.count("\n") == 1


def test_the_second_request_ends_it_at_once():
    with pytest.raises(KeyboardInterrupt), stop_on_signal(""):
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGTERM)


# Progress


def test_a_terminal_sees_a_bar_a_file_sees_lines_and_quiet_shows_nothing():
    def shown(*, terminal, quiet=False, error=False):
        console = Console(file=io.StringIO(), force_terminal=terminal, width=100, quiet=quiet)
        with contextlib.suppress(ValueError), StageProgress(console, 1, verbose=True) as watch:
            for stage, epoch, n_epochs in (("graph 1", 0, 0), ("net 1", 0, 2), ("net 1", 1, 2)):
                watch(Progress(stage, epoch, n_epochs))
            if error:
                raise ValueError("stop")
        return console.file.getvalue(), watch._bar.tasks[0]

    text, task = shown(terminal=False)
    assert [line.split()[:2] for line in text.splitlines()] == [["graph", "1"], ["net", "1"]]
    assert (task.total, task.completed) == (1, 1)
    assert len(shown(terminal=False, error=True)[0].splitlines()) == 1  # it did not finish
    assert "100%" in shown(terminal=True)[0]
    assert shown(terminal=True, quiet=True)[0] == ""


def test_the_bar_counts_a_stage_that_ends_early_as_whole_and_ends_full():
    with StageProgress(Console(file=io.StringIO()), 400) as watch:
        shares, (task,) = [], watch._bar.tasks
        for epoch in range(4):
            watch(Progress("far, classifier 1", epoch, 100))
        shares.append(task.percentage)
        watch(Progress("far, classifier 2", 0, 100))
        shares.append(task.percentage)
        for stage in ("hops, classifier 1", "hops, classifier 2", "hops, classifier 3"):
            watch(Progress(stage, 0, 100))
        shares.append(task.percentage)
    assert shares == [0.75, 25, 100]
    assert task.percentage == 100
