"""The scripts: those that choose settings look at nothing but validation nodes."""

import argparse
import dataclasses
import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from glnn.data import NodeData
from glnn.data.formats import read_data
from glnn.data.synthetic import block_model
from glnn_lab.baselines import BASELINES, NodeProblem
from glnn_lab.experiments.scale import attributed_graph, size_from_degree

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
    data = attributed_graph(size_from_degree(200, 6, n_classes=3, n_features=8), seed=0)
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
    with pytest.raises(SystemExit, match="markers"):
        with_headline("no marks", "| a |")


def test_methods_are_measured_at_every_share_of_an_attack_that_joins_unlike_nodes(tmp_path):
    attack = script("poison_by_attack")
    data = block_model(120, 2, seed=0)
    options = argparse.Namespace(
        shares="0.1,0,0.05", seed=0, device="cpu", methods="gcn,logistic_regression", out=tmp_path
    )
    records = list(attack.measure(data, options))
    part = attack.largest_component(data)
    shares = [0.0, 0.0, 0.05, 0.05, 0.1, 0.1]
    assert [record["share"] for record in records] == shares
    changed = [record["changed"] for record in records]
    assert changed[:2] == [0, 0]
    assert 0 < changed[2] == changed[3] < changed[4] == changed[5] <= 0.1 * part.n_edges
    assert [record["method"] for record in records] == ["gcn", "logistic_regression"] * 3
    poisoned = read_data(tmp_path / f"{data.name}-0-0.1.npz").graph
    changes = sp.triu(poisoned - part.graph).tocoo()
    joined = part.labels[changes.row] != part.labels[changes.col]
    assert (joined == (changes.data > 0)).mean() > 0.8


def test_the_generated_blogs_have_the_wanted_links():
    data = script("poison_by_attack").blogs(0, n_nodes=300, n_links=2000)
    assert abs(data.n_edges - 2000) < 150
    assert 0.8 < data.homophily < 0.97


def test_the_largest_component_is_what_is_left():
    data = NodeData.from_arrays(np.eye(5), [0, 1, 0, 1, 0], edges=[[0, 1], [2, 3], [3, 4]])
    assert script("poison_by_attack").largest_component(data).node_ids.tolist() == [2, 3, 4]


@pytest.mark.parametrize(("name", "said"), [("nosuch", "must be one of"), ("wine", "have a graph")])
def test_what_cannot_be_poisoned_is_one_line(monkeypatch, name, said):
    monkeypatch.setattr(sys, "argv", ["poison_by_attack.py", name])
    with pytest.raises(SystemExit, match=said):
        script("poison_by_attack").main()
