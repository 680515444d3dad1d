import json
import random
import signal
import subprocess
import sys
import time

import pytest

from glnn_lab.cli.reproduce import split_names
from glnn_lab.experiments.runner import VARYING_KEYS

METHODS = "logistic_regression,label_spreading,label_propagation,sgc,mlp"
GRID = ("table1", "--datasets", "block_model", "--methods", METHODS, "--seeds", "4")


def start(out, *more):
    code = "import sys; from glnn.cli.main import main; sys.exit(main())"
    words = [sys.executable, "-c", code, "reproduce", *GRID, "--out", str(out), *more]
    return subprocess.Popen(words, stdout=subprocess.DEVNULL)


def records(out):
    found = [json.loads(line) for line in (out / "results.jsonl").read_text().splitlines()]
    return [{k: v for k, v in record.items() if k not in VARYING_KEYS} for record in found]


@pytest.mark.slow
def test_ours_beside_the_published_numbers(glnn, tmp_path):
    outcome = glnn("reproduce", *GRID, "--jobs", "1", "--out", tmp_path)
    assert outcome.code == 0
    assert outcome.err == ""
    for word in ("block_model", "label spreading", "20 of 20 cells", "table1.md"):
        assert word in outcome.out
    assert (tmp_path / "table1" / "accuracy.svg").is_file()


def test_a_dry_run_counts_and_runs_nothing(glnn, tmp_path):
    outcome = glnn("reproduce", *GRID, "--dry-run", "--out", tmp_path)
    assert outcome.code == 0
    assert "0 of 20 cells are finished; 20 have no earlier time to estimate from." in outcome.out
    assert not any(tmp_path.iterdir())


def test_without_running_the_page_says_that_there_is_nothing_yet(glnn, tmp_path):
    outcome = glnn("reproduce", *GRID, "--no-run", "--out", tmp_path)
    assert outcome.code == 0
    assert not (tmp_path / "results.jsonl").exists()
    assert "| cells | 0 |" in next(tmp_path.glob("*.md")).read_text(encoding="utf-8")


def test_without_resume_every_cell_runs_again_and_once(glnn, tmp_path):
    words = ("table1", "--datasets", "wine", "--methods", "label_spreading", "--seeds", "1")
    for more in ((), ("--no-resume",)):
        assert glnn("reproduce", *words, "--jobs", "1", "--out", tmp_path, *more).code == 0
    assert "1 of 1 cells" in glnn("reproduce", *words, "--dry-run", "--out", tmp_path).out
    assert len(records(tmp_path)) == 1


@pytest.mark.slow
def test_killed_at_random_moments_the_end_is_that_of_an_uninterrupted_run(tmp_path):
    whole = start(tmp_path / "whole", "--jobs", "1")
    assert whole.wait(timeout=300) == 0
    dice, cut = random.Random(0), tmp_path / "cut"
    for _ in range(2):
        process = start(cut, "--jobs", "1")
        n_before = n_lines(cut)
        deadline = time.monotonic() + 120
        while n_lines(cut) <= n_before and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.01)
        time.sleep(dice.uniform(0, 0.4))
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert 0 < n_lines(cut) <= 20
    last = start(cut, "--jobs", "1")
    assert last.wait(timeout=300) == 0
    assert records(cut) == records(tmp_path / "whole")
    assert len({record["id"] for record in records(cut)}) == 20


def n_lines(out):
    path = out / "results.jsonl"
    return path.read_bytes().count(b"\n") if path.exists() else 0


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (("tabel1",), "table1"),
        (("table1", "--datasets", "coraa"), "cora"),
        (("table1", "--methods", "glnn,chebnett"), "chebnet"),
        (("all", "--methods", "chebnett"), "chebnet"),
    ],
)
def test_an_unknown_name_is_one_line_with_a_hint(glnn, tmp_path, words, hint):
    outcome = glnn("reproduce", *words, "--out", tmp_path / "none")
    assert outcome.is_bad_input(f"Did you mean '{hint}'?")
    assert not (tmp_path / "none").exists()


def test_a_number_that_makes_no_sense_is_one_line(glnn, tmp_path):
    assert glnn("reproduce", "table1", "--seeds", "0", "--out", tmp_path).is_bad_input("seeds")
    assert glnn("reproduce", *GRID, "--jobs", "0", "--out", tmp_path).is_bad_input("jobs")


def test_a_failed_cell_is_told_by_the_exit_code(glnn, tmp_path):
    words = ("adjacency", "--datasets", "wine", "--methods", "glnn-default", "--seeds", "1")
    outcome = glnn("reproduce", *words, "--jobs", "1", "--out", tmp_path)
    assert outcome.code == 1
    assert "Failed: glnn on wine" in outcome.out


def test_quiet_says_nothing(glnn, tmp_path):
    words = ("table1", "--datasets", "wine", "--methods", "label_spreading", "--seeds", "1")
    outcome = glnn("reproduce", *words, "--jobs", "1", "--out", tmp_path, "--quiet")
    assert (outcome.code, outcome.out, outcome.err) == (0, "", "")


# Names with commas between


def test_names_stand_between_commas():
    assert split_names(" a, b,") == ("a", "b")
    assert split_names(None) is None
