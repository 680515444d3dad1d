import errno
import json
import os
import threading
import time

import numpy as np
import pandas as pd
import pytest

from glnn import GLNNClassifier
from glnn.cli.main import main
from glnn.exceptions import GlnnError, InputError, OutputError
from glnn.report.results import read_results
from glnn.report.sources import Source
from glnn.studio import LabelSession
from glnn.studio import session as session_module
from glnn.studio.learning import QUICK_SETTINGS, Learner

FAST = {"n_epochs": 4}


@pytest.fixture
def opened(tmp_path, people):
    """Return a function that opens a session on a table of 60 rows, without a thread."""
    sessions = []

    def open_one(n_rows=60, labels=None, folder="s", **more):
        how = {"background": False, "params": FAST} | more
        sessions.append(LabelSession(people(n_rows, labels), tmp_path / folder, **how))
        return sessions[-1]

    yield open_one
    for one in sessions:
        one.close()


def truth(row):
    """The class of a row of the table: two clouds, by the last digit of its id."""
    return "ash" if int(row.removeprefix("p")) % 2 else "oak"


def label_some(session, n_rows):
    for _ in range(n_rows):
        row = session.next()[0]["id"]
        session.label(row, truth(row))


# Acts and their state


def test_acts_change_the_state_and_survive_a_restart(opened, tmp_path, people):
    session = opened(labels={3: "ash", 4: "?", 5: "unknown"})
    assert session.labels == {"p3": "ash"}
    session.label("p0", " new class ")
    session.label("p3", "oak")
    session.skip("p1")
    session.unsure("p2")
    session.label("p6", 7)
    assert session.undo()["id"] == "p6"
    state = session.state(0)
    assert state["counts"] == {"labelled": 2, "skipped": 1, "unsure": 1, "open": 56}
    assert [one["name"] for one in state["classes"]] == ["ash", "new class", "oak"]
    assert state["version"] == 7
    session.close()
    again = opened(labels={3: "ash", 4: "?", 5: "unknown"})
    assert again.state(0) == {**state, "fit": again.state(0)["fit"]}
    for _ in range(4):
        again.undo()
    assert again.labels == {"p3": "ash"}
    with pytest.raises(InputError, match="none that is left"):
        again.undo()
    again.close()
    from_folder = LabelSession(tmp_path / "s", background=False, params=FAST)
    assert from_folder.labels == {"p3": "ash"}
    from_folder.close()


def test_a_message_changes_the_state_and_names_what_changed_since(opened):
    session = opened()
    first = session.act({"act": "label", "id": "p1", "value": "ash", "k": 2})
    assert [one["id"] != "p1" for one in first["proposals"]] == [True, True]
    state = session.act({"act": "undo", "since": first["version"], "k": 0})
    assert state["changes"] == [{"id": "p1", "status": "open", "label": None}]
    assert state["undo"] is None
    card = session.act({"act": "card", "id": "p1"})["card"]
    assert (card["id"], card["row"], card["kind"]) == ("p1", 1, "chosen")
    assert [name for name, _ in card["values"]] == ["height", "width", "soil"]
    assert card["neighbours"][0]["weight"] >= card["neighbours"][-1]["weight"] > 0


WRONG = [
    None,
    [],
    {},
    {"act": "drop"},
    {"act": ["label"]},
    {"act": "label"},
    {"act": "label", "id": "p1"},
    {"act": "label", "id": "nobody", "value": "x"},
    {"act": "label", "id": "p1", "value": " "},
    {"act": "label", "id": "p1", "value": "-1"},
    {"act": "label", "id": "p1", "value": "x" * 201},
    {"act": "label", "id": "p1", "value": "a\nb"},
    {"act": "label", "id": "p1", "value": "a\0b"},
    {"act": "label", "id": "p1", "value": "\ud800"},
    {"act": "label", "id": "p1", "value": True},
    {"act": "label", "id": "p1", "value": {"a": 1}},
    {"act": "skip", "id": {"p1": 1}},
    {"act": "next", "k": 21},
    {"act": "next", "k": "3"},
    {"act": "state", "since": -1},
    {"act": "fit"},
    {"act": "fit", "kind": "whole"},
    {"act": "undo"},
]


def test_any_other_message_is_refused_in_one_line_and_changes_nothing(opened):
    session = opened()
    size = (session.folder / "journal.jsonl").stat().st_size
    for message in WRONG:
        with pytest.raises(InputError) as caught:
            session.act(message)
        assert "\n" not in str(caught.value)
    assert session.state(0)["version"] == 1
    assert (session.folder / "journal.jsonl").stat().st_size == size


def test_a_full_disk_refuses_the_act_in_one_line_and_keeps_all_others(opened, monkeypatch):
    session = opened()
    session.label("p1", "ash")

    def full(handle):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(OutputError, match="No space left") as caught:
            session.label("p2", "oak")
    assert "\n" not in str(caught.value)
    assert session.labels == {"p1": "ash"}
    session.label("p3", "oak")
    session.close()
    with pytest.raises(InputError, match="must be open"):
        session.label("p4", "oak")
    assert opened().labels == {"p1": "ash", "p3": "oak"}


def test_two_sessions_in_one_folder_and_other_data_are_refused(opened):
    session = opened()
    with pytest.raises(OutputError, match="one writer"):
        opened()
    session.close()
    with pytest.raises(InputError, match="data that it began with"):
        opened(n_rows=50)
    opened()


HOSTILE = ["<script>alert(1)</script>", "=1+1", '"; DROP', "ä\u202eb", "../../x", "{{7*7}}"]


def test_hostile_cells_ids_and_labels_come_back_as_they_are(tmp_path):
    rng = np.random.default_rng(0)
    names = [f"{HOSTILE[k % len(HOSTILE)]} {k}" for k in range(30)]
    cells = [HOSTILE[k % 3] for k in range(30)]
    frame = pd.DataFrame({"id": names, "x": rng.normal(size=30), "text": cells})
    frame.to_csv(tmp_path / "t.csv", index=False)
    how = {"background": False, "params": FAST}
    with LabelSession(tmp_path / "t.csv", tmp_path / "s", **how) as session:
        for row, value in zip(names, [*HOSTILE[:3], "</style>", "null", "0x10"]):
            session.label(row, value)
        session.fit("quick")
        card = session.card(names[0])
        assert dict(card["values"])["text"] == HOSTILE[0]
        assert len(session.map_data()) > 100
        kept = session.labels
    with LabelSession(tmp_path / "s", **how) as session:
        assert session.labels == kept


def test_labels_csv_has_no_formulas_and_is_read_back_as_the_same_labels(tmp_path, capsys):
    names = ["=SUM(A1)", "'=SUM(A1)", "+1 x", "-7", "@me", *(f"r{k}" for k in range(35))]
    values = np.random.default_rng(0).normal(size=(40, 2)) + 3 * (np.arange(40) % 2)[:, None]
    table = tmp_path / "t.csv"
    pd.DataFrame(values, index=names, columns=["a", "b"]).to_csv(table, index_label="id")
    how = {"background": False, "params": FAST}
    with LabelSession(table, tmp_path / "s", **how) as session:
        for number, row in enumerate(names[:30]):
            session.label(row, ["=1+1", "-yes", "'-yes", "-2"][number % 4])
        kept, path = session.labels, session.export_labels()
    cells = [cell for line in path.read_text().splitlines() for cell in line.split(",")]
    assert {cell for cell in cells if cell[0] in "=+-@"} == {"-7", "-2"}
    assert "'=1+1" in cells
    with LabelSession(Source(str(table), path), tmp_path / "other", **how) as session:
        assert session.labels == kept
    args = ["fit", table, "--labels", path, "--out", tmp_path / "run", "--set", "n_epochs=4"]
    assert main([str(arg) for arg in args]) == 0
    capsys.readouterr()
    results = read_results(tmp_path / "run")
    seen = zip(results.ids.astype(str), results.labels)
    assert {row: results.class_names[k] for row, k in seen if k >= 0} == kept


# Proposals


def test_proposals_are_the_ranking_of_suggest_labels_also_between_fits(opened):
    session = opened(params=FAST)
    label_some(session, 6)
    session.fit("quick")
    y = np.array([session.labels.get(row, "") for row in session.ids])
    model = GLNNClassifier(
        **FAST,
        tracks=["features"],
        settings=QUICK_SETTINGS,
        n_rounds=1,
        calibrate=None,
        random_state=0,
    )
    model.fit(session.source.data.features, y)
    ranked = model.suggest_labels(5)["node"].tolist()
    assert [card["row"] for card in session.next(5)] == ranked
    session.label(session.ids[ranked[0]], "ash")
    assert [card["row"] for card in session.next(4)] == ranked[1:]
    session.skip(session.ids[ranked[1]])
    may = np.setdiff1d(np.flatnonzero(y == ""), ranked[:2])
    ranking = session._proposals.answer.ranking
    known = {*np.flatnonzero(y != "").tolist(), ranked[0]}
    proposed = [card["row"] for card in session.next(3)]
    assert ranking.labelled == known
    assert proposed == ranking.select(may, 3)[0].tolist()
    session.undo()
    session.undo()
    assert [card["row"] for card in session.next(5)] == ranked


def test_before_two_classes_are_known_rows_are_diverse_and_nothing_is_predicted(opened):
    session = opened()
    cards = session.next(4)
    assert {card["kind"] for card in cards} == {"diverse"}
    assert {truth(card["id"]) for card in cards[:2]} == {"ash", "oak"}
    assert all(card["predicted"] is None and card["probabilities"] == [] for card in cards)
    session.label(cards[0]["id"], "ash")
    with pytest.raises(InputError, match="two classes"):
        session.fit("quick")


def test_skipped_rows_come_back_last_and_unsure_ones_never(opened):
    session = opened(n_rows=12)
    session.skip("p3")
    session.unsure("p4")
    seen = []
    for _ in range(11):
        card = session.next()[0]
        seen.append(card["id"])
        session.label(card["id"], truth(card["id"]))
    assert seen[-1] == "p3"
    assert card["kind"] == "skipped"
    assert "p4" not in seen
    assert session.next() == []


def test_a_suspect_label_comes_back_once_with_its_reason(opened):
    session = opened(params={"n_epochs": 60})
    for row in session.ids[:40]:
        session.label(row, truth(row))
    session.label("p8", "ash")  # which is an oak
    session.fit("checked")
    card = session.next()[0]
    assert (card["id"], card["kind"], card["label"]) == ("p8", "second look", "ash")
    assert "oak" in card["reason"]
    session.skip("p8")
    for _ in range(6):
        card = session.next()[0]
        assert card["id"] != "p8"
        session.label(card["id"], truth(card["id"]))
    session.fit("checked")
    assert all(card["id"] != "p8" for card in session.next(10))


# Fits


def test_a_warm_fit_has_the_answer_of_a_cold_one(opened):
    session = opened()
    label_some(session, 6)
    session.fit("quick")
    label_some(session, 4)
    session.fit("quick")
    warm = session._proposals.answer.results.probabilities
    session.close()
    cold = opened()
    cold.fit("quick")
    np.testing.assert_array_equal(cold._proposals.answer.results.probabilities, warm)


def test_the_curve_has_labels_that_fits_had_not_seen_and_is_kept(opened):
    session = opened()
    label_some(session, 16)
    session.fit("checked")
    state = session.state(0)
    (point,) = state["curve"]
    model = session._proposals.answer.model
    hidden = model.held_out_.hidden_nodes
    right = model.held_out_.calibrated()[hidden].argmax(1) == model.held_out_.classes[hidden]
    assert (point["n_labels"], point["kind"]) == (16, "checked")
    assert point["value"] == pytest.approx(right.mean())
    assert point["low"] < point["value"] <= point["high"]
    session.close()
    again = opened().state(0)
    assert (again["curve"], again["verdict"]) == (state["curve"], state["verdict"])


def test_a_full_fit_makes_the_folder_a_run_and_acts_in_the_meantime_are_kept(
    opened, tmp_path, people, capsys
):
    session = opened()
    label_some(session, 14)
    real, seen = session._learner.write, session.labels
    before, after = [row for row in session.ids if row not in seen][:2]

    def write(folder, answer):
        session.label(before, "ash")
        real(folder, answer)
        session.label(after, "ash")

    session._learner.write = write
    session.fit()
    run = session.folder
    assert read_results(run).split.train.size == 14
    for args in (["export", run, "--to", "csv"], ["suggest", run, "-k", "2"]):
        assert main([str(arg) for arg in args]) == 0
    assert main(["predict", str(run), str(people(60)), "--out", str(tmp_path / "p.csv")]) == 0
    assert len(pd.read_csv(tmp_path / "p.csv")) == 60
    capsys.readouterr()
    session.close()
    again = opened()
    assert again.labels == seen | {before: "ash", after: "ash"}
    again.close()
    (run / "journal.jsonl").unlink()  # a run folder opens as well, with the labels of its fit
    with LabelSession(run, background=False, params=FAST) as from_run:
        assert from_run.folder == run
        assert from_run.labels == seen


@pytest.mark.parametrize("has_links", [True, False])
def test_acts_while_a_run_is_written_do_not_wait_and_are_on_the_disk(
    has_links, opened, monkeypatch
):
    if not has_links:
        monkeypatch.setattr(os, "link", fail_to_link)
    session = opened(background=True)
    label_some(session, 12)
    begun, go_on, real = threading.Event(), threading.Event(), session._learner.write

    def write(folder, answer):
        begun.set()
        assert go_on.wait(60)
        real(folder, answer)

    session._learner.write = write
    session.request_fit("full")
    assert begun.wait(60)
    session.label("p50", "elm")  # would wait for ever
    go_on.set()
    assert session.wait(60)
    session.label("p51", "elm")
    assert (session.folder / "report.html").is_file()
    assert not (session.folder / ".run").exists()
    lines = (session.folder / "journal.jsonl").read_text().splitlines()
    assert {"p50", "p51"} <= {json.loads(line).get("id") for line in lines}
    session.close()
    assert opened().labels == session.labels


def fail_to_link(*_, **__):
    raise OSError(errno.EPERM, os.strerror(errno.EPERM))


def test_a_run_that_cannot_be_put_in_place_leaves_the_session_as_it_was(opened, monkeypatch):
    session = opened()
    label_some(session, 12)

    def fail(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr("glnn.data.files.exchange_folders", fail)
        with pytest.raises(InputError, match="No space left"):
            session.fit()
    label_some(session, 1)
    session.fit()
    assert (session.folder / "report.html").is_file()
    session.close()
    assert opened().labels == session.labels


def test_fits_in_the_background_run_one_at_a_time_and_the_last_labels_count(opened, monkeypatch):
    n_running, most, lock = 0, 0, threading.Lock()
    real = Learner.fit

    def fit(self, kind, labels, classes):
        nonlocal n_running, most
        with lock:
            n_running += 1
            most = max(most, n_running)
        answer = real(self, kind, labels, classes)
        time.sleep(0.05)
        with lock:
            n_running -= 1
        return answer

    monkeypatch.setattr(Learner, "fit", fit)
    session = opened(background=True)
    slowest = 0.0
    for number in range(24):
        row = session.next()[0]["id"]
        started = time.perf_counter()
        session.label(row, truth(row))
        session.next()
        slowest = max(slowest, time.perf_counter() - started)
        if number == 8:
            session.request_fit("quick")
    assert session.wait(60)
    assert most == 1
    assert session.state(0)["fit"]["n_labels"] == 24
    assert slowest < 0.1 or os.getloadavg()[0] > os.cpu_count()


def test_a_fit_that_fails_leaves_the_last_answer_and_a_line_that_says_why(opened, monkeypatch):
    session = opened(background=True)
    label_some(session, 5)
    assert session.wait(60)
    before = session.state(1)

    def fail(self, kind, labels, classes):
        raise RuntimeError("the reactor\nis cold")

    with monkeypatch.context() as patch:
        patch.setattr(Learner, "fit", fail)
        label_some(session, 1)
        assert session.wait(60)
        state = session.state(1)
    assert state["fit"]["error"] == "the fit failed: RuntimeError: the reactor is cold"
    assert state["fit_version"] == before["fit_version"]
    assert state["proposals"][0]["predicted"] is not None
    label_some(session, 1)
    assert session.wait(60)
    assert session.state(0)["fit"]["error"] == ""
    assert session.state(0)["fit_version"] == before["fit_version"] + 1


def test_a_full_fit_follows_a_pause_and_is_given_up_when_a_label_comes(opened, monkeypatch):
    monkeypatch.setattr(session_module, "_PAUSE", 0.2)
    session = opened(background=True)
    begun, real = threading.Event(), Learner._make_estimator

    def make(self, kind):
        if kind == "full":
            begun.set()
            time.sleep(0.1)
        return real(self, kind)

    monkeypatch.setattr(Learner, "_make_estimator", make)
    monkeypatch.setattr(Learner, "write", lambda self, folder, answer: None)
    label_some(session, 6)
    assert begun.wait(60)
    row = session.next()[0]["id"]
    session.label(row, truth(row))
    assert session.wait(60, full=True)
    assert [point["n_labels"] for point in session.state(0)["curve"]] == [7]
    assert session.state(0)["fit"]["kind"] == "full"


def test_closing_gives_up_a_fit_and_listeners_hear_of_acts_and_fits(opened):
    session = opened(n_rows=200, background=True, params={"n_epochs": 100_000})
    heard = []
    forget = session.listen(lambda: heard.append(session.state(0)["version"]))
    label_some(session, 6)
    deadline = time.monotonic() + 60
    while not session.state(0)["fit"]["running"] and time.monotonic() < deadline:
        time.sleep(0.01)
    assert session.state(0)["fit"]["running"]
    forget()
    n_heard = len(heard)
    session.label("p1", "ash")
    assert n_heard >= 6
    assert len(heard) == n_heard
    started = time.monotonic()
    session.close()
    assert time.monotonic() - started < 20
    session.close()


@pytest.mark.parametrize("kind", ["frame", "named frame"])
def test_data_in_memory_are_kept_in_the_folder_and_open_again(kind, tmp_path):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(30, 3)) + 3.0 * (np.arange(30) % 2)[:, None]
    y = [["oak", "ash"][k % 2] if k < 4 else None for k in range(30)]
    index = [f"n{k}" for k in range(30)] if "named" in kind else None
    data = pd.DataFrame(x, columns=["a", "b", "c"], index=index)
    names = data.index
    edges = pd.DataFrame({"source": names[:20], "target": names[5:25]})
    graph = {"graph": edges} if "named" in kind else {}
    how = {"background": False, "params": FAST}
    with LabelSession(data, tmp_path / "s", label=y, **graph, **how) as session:
        row = session.next()[0]["id"]
        session.label(row, "elm")
        session.fit("quick")
        labels, has_graph = session.labels, session.source.data.graph is not None
    assert has_graph is bool(graph)
    (tmp_path / "s").rename(tmp_path / "moved")
    with LabelSession(tmp_path / "moved", **how) as session:
        assert session.labels == labels
    with LabelSession(data, tmp_path / "moved", label=y, **graph, **how) as session:
        assert session.labels == labels
    changed = data + 1
    with pytest.raises(GlnnError, match="began with"):
        LabelSession(changed, tmp_path / "moved", label=y, **graph, **how)
    with pytest.raises(GlnnError, match=r"DataFrame, got ndarray"):
        LabelSession(x, tmp_path / "array", label=y, **how)
