import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from glnn.exceptions import InputError
from glnn.report.compare import compare_runs, run_names
from glnn.report.page.document import build_page
from glnn.report.page.page_data import Graphs, write_page_data


@pytest.fixture
def save(tmp_path):
    def saved(name, page):
        (tmp_path / name).mkdir()
        write_page_data(tmp_path / name / "page.npz", page)
        return tmp_path / name

    return saved


def test_a_run_beside_itself_differs_in_nothing(results, save):
    page = build_page(results)
    found = compare_runs([save("one", page), save("two", page)])
    (pair,) = found.pairs
    assert (pair.difference.value, pair.difference.low, pair.difference.high) == (0, 0, 0)
    assert (pair.n_shared, pair.n_first, pair.n_second) == (results.facts.n_edges, 0, 0)
    assert pair.same_predictions == 1
    assert pair.n_judged == results.split.test.size


def test_the_order_of_nodes_does_not_count(results, save):
    page = build_page(results)
    order = np.random.default_rng(0).permutation(20)
    nodes = dataclasses.replace(
        page.nodes,
        **{
            name: [part[k] for k in order] if name == "ids" else part[order]
            for name, part in vars(page.nodes).items()
            if part is not None
        },
    )
    turned = dataclasses.replace(
        page, nodes=nodes, graphs=Graphs(sp.csr_matrix(page.graphs.learned[order][:, order]))
    )
    (pair,) = compare_runs([save("one", page), save("two", turned)]).pairs
    assert pair.n_shared == results.facts.n_edges
    assert pair.same_predictions == 1


def test_the_difference_is_that_of_the_accuracies_and_links_add_up(results, save):
    wrong = dataclasses.replace(results, probabilities=results.probabilities[:, ::-1])
    fewer = sp.csr_matrix(sp.triu(results.adjacency, k=1).multiply(results.adjacency > 0.7))
    other = dataclasses.replace(build_page(wrong), graphs=Graphs(sp.csr_matrix(fewer + fewer.T)))
    found = compare_runs([save("one", build_page(results)), save("two", other)])
    (pair,) = found.pairs
    assert pair.difference.value == pytest.approx(results.accuracy("test") - wrong.accuracy("test"))
    assert pair.n_shared + pair.n_first == found.runs[0].n_links
    assert pair.n_shared + pair.n_second == found.runs[1].n_links
    assert json.loads(json.dumps(found.to_dict()))["pairs"][0]["n_second"] == 0


def test_runs_without_a_common_node_have_no_difference(results, save):
    page = build_page(results)
    other = dataclasses.replace(
        page, nodes=dataclasses.replace(page.nodes, ids=[f"x{k}" for k in range(20)])
    )
    (pair,) = compare_runs([save("one", page), save("two", other)]).pairs
    assert pair.difference is None
    assert pair.same_predictions is None


def test_three_runs_make_three_pairs_and_one_run_is_refused(results, save):
    folders = [save(name, build_page(results)) for name in ("a", "b", "c")]
    assert len(compare_runs(folders).pairs) == 3
    with pytest.raises(InputError, match="two runs"):
        compare_runs(folders[:1])


def test_folders_of_one_name_are_told_apart_by_their_paths():
    assert run_names([Path("x/a"), Path("y/a")]) == ["x/a", "y/a"]
