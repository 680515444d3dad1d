import json

from glnn.cli.main import BAD_INPUT, main


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
