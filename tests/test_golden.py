"""The fits of ``golden_runs.py`` give what they gave when they were recorded."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

RUNS = Path(__file__).with_name("golden_runs.py")
RECORDED = json.loads(RUNS.with_suffix(".json").read_text(encoding="utf-8"))
COMMANDS = {"command", "default, two processes", "paper, two processes"}


@pytest.mark.parametrize("kind", ["fits", pytest.param("commands", marks=pytest.mark.slow)])
def test_runs_give_the_recorded_bits_or_on_another_machine_about_the_same(kind, tmp_path):
    path = tmp_path / "now.json"
    subprocess.run([sys.executable, str(RUNS), str(path), kind], check=True, timeout=600)
    now = json.loads(path.read_text(encoding="utf-8"))
    recorded = {
        run: parts
        for run, parts in RECORDED["results"].items()
        if (run in COMMANDS) == (kind == "commands")
    }
    if now["machine"] == RECORDED["machine"]:
        assert now["results"] == recorded
        return
    assert set(now["results"]) == set(recorded)
    for run, before in recorded.items():
        after = now["results"][run]
        assert set(after) == set(before)
        for name, part in before.items():
            close = pytest.approx(part["norm"], rel=0.1, abs=1e-6)
            assert after[name]["norm"] == close, f"{run}: {name}"
