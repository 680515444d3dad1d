import json

import pytest


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
    hint = "not installed; pip install 'glnn[report]' brings it"
    monkeypatch.setattr("glnn.report.health.health_rows", lambda: [(state, "matplotlib", hint)])
    outcome = glnn("doctor")
    assert hint in outcome.out
    assert outcome.code == (1 if state == "bad" else 0)
