import json

import pytest

pytest.importorskip("optuna")


def test_a_search_is_said_line_by_line_and_a_fit_uses_it(glnn, people, monkeypatch):
    monkeypatch.chdir(people)
    table = ["people.csv", "--labels", "jobs.csv", "--label", "job", "--epochs", 3]
    out = ["--trials", 2, "--folds", 2, "--out", "tuned"]
    outcome = glnn("tune", *table, *out, "--nested", 0)
    assert outcome.code == 0, outcome.err
    assert outcome.out.startswith("4 fits for the search, 0 for its nested estimate\ntrial   1")
    page = json.loads((people / "tuned" / "tuning.json").read_text())
    assert page["nested"] is None
    page["params"] = {"n_steps": 2}
    (people / "mine.json").write_text(json.dumps(page))
    fit = glnn("fit", *table, "--settings", "mine.json", "--out", "run", "--no-estimate")
    assert fit.code == 0, fit.err
    settings = json.loads((people / "run" / "metrics.json").read_text())["settings"]
    assert settings["head"]["n_steps"] == 2 and settings["head"]["n_epochs"] == 3
    shown = (people / "run" / "report.html").read_text()
    assert "How parameters were chosen" in shown and "2 trials by" in shown


def test_one_outer_fold_is_no_estimate(glnn):
    outcome = glnn("tune", "blobs", "--nested", 1)
    assert outcome.code == 2 and "--nested" in outcome.err
