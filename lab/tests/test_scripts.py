"""The scripts: those that choose settings look at nothing but validation nodes."""

import dataclasses
import importlib.util
from pathlib import Path

import numpy as np
import pytest

from glnn.data.scale import attributed_graph, sized
from glnn_lab.baselines import BASELINES, NodeProblem

LAB = Path(__file__).parents[1]
ROOT = LAB.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def script(name):
    spec = importlib.util.spec_from_file_location(name, LAB / "scripts" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def small_problem(labels):
    rng = np.random.default_rng(0)
    features = rng.normal(size=(60, 5)) + np.arange(60)[:, None] % 3
    links = np.triu(rng.random((60, 60)) < 0.1, 1)
    graph = (links | links.T).astype(float)
    return NodeProblem(features, graph, labels, np.arange(15), np.arange(15, 30), 3)


def test_test_labels_change_nothing():
    truth = np.arange(60) % 3
    lies = truth.copy()
    lies[30:] = (lies[30:] + 1) % 3
    scores = script("choose_baseline_settings").validation_scores
    changes = {"weight_decay": 1e-3, "n_epochs": 5}
    honest, lied = (scores("monet", changes, small_problem(y), 2) for y in (truth, lies))
    assert honest == lied


@pytest.mark.parametrize("name", ["gwnn", "monet", "planetoid", "longae"])
def test_the_default_is_part_of_the_grid(name):
    settings = dataclasses.asdict(BASELINES[name].settings)
    for key, values in script("choose_baseline_settings").GRIDS[name].items():
        assert settings[key] in values


def test_the_time_of_a_fit_is_split_into_its_stages():
    data = attributed_graph(sized(200, 6, n_classes=3, n_features=8), seed=0)
    found = script("gpu_bench").whole_fit(data, "paper", "cpu", 1)
    stages = found["stages_s"]
    assert {"classifier 1", "graph 2", "classifier 2"} <= set(stages)
    assert 0 < sum(stages.values()) <= found["fit_s"] + 1e-3
    assert found["n_epochs"] % 200 == 0


with_headline = script("readme_headline").with_headline


def test_the_headline_is_that_of_the_committed_results():
    table = ROOT / "docs" / "results" / "headline.md"
    if not table.is_file():
        pytest.skip("docs/results is not there yet; make results writes it and this table")
    assert with_headline(README, table.read_text(encoding="utf-8")) == README


def test_the_headline_is_put_between_its_marks_and_nowhere_else():
    changed = with_headline(README, "| a |\n|---|\n| 1 |\n")
    before, rest = README.split("<!-- headline -->\n")
    assert changed == (
        before
        + "<!-- headline -->\n| a |\n|---|\n| 1 |\n<!-- end of headline -->"
        + rest.split("<!-- end of headline -->")[1]
    )
    with pytest.raises(SystemExit, match="marks"):
        with_headline("no marks", "| a |")
