import dataclasses
import json

import numpy as np
import pytest
import scipy.sparse as sp

from glnn.engine.fit import fit_problem
from glnn.engine.model import Model
from glnn.engine.new_nodes import NewNodes
from glnn.engine.presets import resolve_settings
from glnn.exceptions import CheckpointError, GraphWarning, InputError
from glnn.peers import Partition


@pytest.fixture
def model(problem):
    result = fit_problem(problem, resolve_settings("default", changes={"n_epochs": 5}), seed=0)
    return Model.of(problem.features, result)


def new_rows(problem):
    return (problem.features[:6] + problem.features[30:36]).tocsr()


@pytest.mark.parametrize("with_graph", [True, False])
@pytest.mark.parametrize("preset", ["default", "paper"])
def test_a_loaded_model_answers_with_the_same_bits(problem, tmp_path, preset, with_graph):
    if not with_graph:
        problem = dataclasses.replace(problem, graph=None)
    settings = resolve_settings(preset, changes={"n_epochs": 5})
    model = Model.of(problem.features, fit_problem(problem, settings, seed=0))
    model.save(tmp_path / "m", {"note": 1})
    again, page = Model.load(tmp_path / "m")
    assert page["note"] == 1
    assert again.settings == model.settings
    for rows in (problem.features, new_rows(problem)):
        np.testing.assert_array_equal(again.predict_proba(rows), model.predict_proba(rows))


@pytest.mark.parametrize("with_graph", [True, False])
def test_what_several_processes_save_is_read_as_one_model(problem, together, tmp_path, with_graph):
    if not with_graph:
        problem = dataclasses.replace(problem, graph=None)
    settings = resolve_settings("default", changes={"n_epochs": 5, "n_rounds": 2})

    def work(peers):
        rows = Partition(60, peers).rows
        own = problem.features[rows]
        graph = None if problem.graph is None else problem.graph[rows]
        part = dataclasses.replace(problem, features=own, graph=graph, peers=peers)
        model = Model.of(own, fit_problem(part, settings, seed=0))
        model.save(tmp_path / "m", {})
        with pytest.raises(InputError, match="must be saved and loaded"):
            model.predict_proba(problem.features)
        return model, model.whole("distributions")

    models, distributions = zip(*together(2, work))
    loaded, _ = Model.load(tmp_path / "m")
    for name in ("adjacency", "distributions", "features", "digests"):
        stacked = sp.vstack([sp.csr_matrix(getattr(model, name)) for model in models])
        assert abs(stacked - sp.csr_matrix(getattr(loaded, name))).max() == 0
    np.testing.assert_array_equal(distributions[0], loaded.distributions)  # in the first, all
    np.testing.assert_array_equal(distributions[1], models[1].distributions)
    np.testing.assert_array_equal(loaded.predict_proba(problem.features), loaded.distributions)
    np.testing.assert_allclose(loaded.predict_proba(new_rows(problem)).sum(1), 1)


def test_links_of_new_rows_count(problem):
    settings = resolve_settings("default", changes={"n_epochs": 5, "doubts_graph": False})
    model = Model.of(problem.features, fit_problem(problem, settings, seed=0))
    rows = new_rows(problem)[:1]
    one_side, other_side = (np.zeros((1, 60)) for _ in range(2))
    one_side[0, 0:60:2] = 1
    other_side[0, 1:60:2] = 1
    first, second = (model.predict_proba(rows, links)[0] for links in (one_side, other_side))
    assert first[0] > second[0]


def test_links_to_a_graph_that_the_fit_distrusts_are_ignored_with_a_warning(problem):
    settings = resolve_settings("default", changes={"n_epochs": 5, "competes": False})
    model = Model.of(problem.features, fit_problem(problem, settings, seed=0))
    rows, links = new_rows(problem)[:1], np.ones((1, 60))
    distrusting = dataclasses.replace(model, distrusts_graph=True)
    with pytest.warns(GraphWarning, match="links are ignored"):
        found = distrusting.predict_proba(rows, links)
    np.testing.assert_array_equal(found, model.predict_proba(rows))


@pytest.mark.parametrize("head", ["linear", "hops"])
def test_heads_on_rows_hear_the_links_of_new_nodes(problem, head):
    settings = resolve_settings("default", head, changes={"n_epochs": 5})
    model = Model.of(problem.features, fit_problem(problem, settings, seed=0))
    links = sp.csr_matrix(problem.graph[:6])
    found = model.predict_proba(problem.features[:6], links)
    nodes = NewNodes(problem.graph, model.features, model.features[:6], links, np.zeros(6))
    np.testing.assert_allclose(found, nodes.on_rows(model.networks[0]))


def test_networks_that_answer_together_answer_by_their_mean(problem, model):
    both = dataclasses.replace(
        model, networks=model.networks * 2, temperatures=model.temperatures * 2
    )
    rows = new_rows(problem)
    np.testing.assert_allclose(both.predict_proba(rows), model.predict_proba(rows))


def test_the_literal_model_has_no_rule_for_new_rows(problem):
    result = fit_problem(problem, resolve_settings("literal", changes={"n_epochs": 2}), seed=0)
    literal = Model.of(problem.features, result)
    np.testing.assert_array_equal(literal.predict_proba(problem.features), result.probabilities)
    with pytest.raises(InputError, match="no rule for new rows"):
        literal.predict_proba(new_rows(problem))


def test_a_page_with_a_missing_part_is_refused_in_one_line(problem, model, tmp_path):
    model.save(tmp_path / "m", {})
    page = json.loads((tmp_path / "m" / "model.json").read_text())
    del page["settings"]["head"]["n_hidden"], page["new_rows"]["share"]["loop"]
    (tmp_path / "m" / "model.json").write_text(json.dumps(page))
    with pytest.raises(CheckpointError) as caught:
        Model.load(tmp_path / "m")
    assert "\n" not in str(caught.value)
