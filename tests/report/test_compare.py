import dataclasses

import numpy as np
import pytest
import scipy.sparse as sp

from glnn.report.compare import compare_runs
from glnn.report.results import write_results


@pytest.fixture
def save(tmp_path):
    def saved(name, page):
        (tmp_path / name).mkdir()
        write_results(tmp_path / name / "results.npz", page)
        return tmp_path / name

    return saved


def test_a_run_beside_itself_differs_in_nothing(results, save):
    _, (pair,) = compare_runs([save("one", results), save("two", results)])
    assert (pair.difference.value, pair.difference.low, pair.difference.high) == (0, 0, 0)
    assert (pair.n_shared, pair.n_first, pair.n_second) == (results.graph_facts.n_edges, 0, 0)
    assert pair.same_predictions == 1
    assert pair.n_judged == results.split.test.size


def test_the_order_of_nodes_does_not_count(results, save, make_evaluation):
    order = np.random.default_rng(0).permutation(20)
    labels, said = results.labels[order], results.probabilities[order]
    test = np.flatnonzero(np.isin(order, results.split.test))
    turned = dataclasses.replace(
        results,
        ids=results.ids[order],
        labels=labels,
        probabilities=said,
        split=dataclasses.replace(results.split, train=results.split.val, test=test),
        adjacency=sp.csr_matrix(results.adjacency[order][:, order]),
        evaluation=make_evaluation(results.class_names, labels, said, test),
    )
    _, (pair,) = compare_runs([save("one", results), save("two", turned)])
    assert pair.n_shared == results.graph_facts.n_edges
    assert pair.same_predictions == 1
    assert pair.n_judged == 16 and pair.difference.value == 0


def test_the_difference_is_that_of_the_accuracies_and_links_add_up(results, save):
    wrong = dataclasses.replace(results, probabilities=results.probabilities[:, ::-1])
    fewer = sp.csr_matrix(sp.triu(results.adjacency, k=1).multiply(results.adjacency > 0.7))
    other = dataclasses.replace(wrong, adjacency=sp.csr_matrix(fewer + fewer.T))
    runs, (pair,) = compare_runs([save("one", results), save("two", other)])
    right = [(r.predictions == r.labels)[r.split.test].mean() for r in (results, wrong)]
    assert pair.difference.value == pytest.approx(right[0] - right[1])
    assert pair.n_shared + pair.n_first == runs[0].n_links
    assert pair.n_shared + pair.n_second == runs[1].n_links
    assert pair.n_second == 0


def test_runs_without_a_common_node_have_no_difference(results, save):
    other = dataclasses.replace(results, ids=np.arange(20) + 100)
    _, (pair,) = compare_runs([save("one", results), save("two", other)])
    assert pair.difference is None
    assert pair.same_predictions is None
