"""The fits of ``golden_runs.py`` give what they gave when they were recorded."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

RUNS = Path(__file__).with_name("golden_runs.py")
RECORDED = json.loads(RUNS.with_suffix(".json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def now(tmp_path_factory):
    path = tmp_path_factory.mktemp("golden") / "now.json"
    subprocess.run([sys.executable, str(RUNS), str(path)], check=True, timeout=600)
    return json.loads(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("run", RECORDED["results"])
def test_a_run_gives_the_recorded_bits_or_on_another_machine_about_the_same(run, now):
    before, after = RECORDED["results"][run], now["results"][run]
    if now["machine"] == RECORDED["machine"]:
        assert after == before
        return
    assert set(after) == set(before)
    for name, part in before.items():
        assert after[name]["norm"] == pytest.approx(part["norm"], rel=0.1, abs=1e-6), name


def test_no_run_is_without_a_record(now):
    assert set(now["results"]) == set(RECORDED["results"])
