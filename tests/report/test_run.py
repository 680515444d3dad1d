import numpy as np
import pytest
import scipy.sparse as sp
import torch

from glnn import GLNNClassifier, learn_graph
from glnn._utils import limit_threads
from glnn.data import NodeData, write_data
from glnn.engine.callbacks import Progress
from glnn.exceptions import InputError
from glnn.graph.pairs import SparseAdjacency
from glnn.report.run import (
    FitOptions,
    GraphLog,
    Run,
    collect_rounds,
)
from glnn.report.sources import Source

# The run


def test_results_agree_with_the_estimator(tested_run):
    (run, seen), model = tested_run, tested_run[0].model
    results, split = run.results, run.source.split
    np.testing.assert_array_equal(
        results.probabilities[:, results.classes], model.label_distributions_
    )
    assert (
        results.evaluation.own.accuracy
        == (results.predictions == results.labels)[split.test].mean()
    )
    assert results.evaluation.folds.nodes.tolist() == split.test.tolist()
    assert (results.adjacency != model.graph_).nnz == 0
    assert [score.title for score in results.evaluation.others] == [
        "largest class",
        "label spreading",
    ]
    assert results.settings["tracks"] == ["features", "linear", "hops"] == list(model.mixture_)
    assert all(track["head"]["n_epochs"] == 3 for track in results.settings["track"].values())
    assert results.choices == model.choices_
    stages = [event.stage for event in seen]
    assert stages[-1] == "label spreading" and "fold 1 of 5, features, graph 1" in stages


def test_the_test_labels_do_not_reach_the_rivals(tested_run):
    (run, _), data = tested_run, tested_run[0].source.data
    said = run.results.evaluation.others[0].predictions.predicted  # the largest class
    train = np.bincount(data.labels[run.source.split.train])
    assert set(said.tolist()) <= set(np.flatnonzero(train == train.max()).tolist())


@pytest.mark.parametrize(("folds", "tracks"), [(2, ["features"]), (0, ["features", "linear"])])
def test_labels_are_hidden_for_calibration_if_that_is_wanted(do_run, tmp_path, tracks, folds):
    source = Source("blobs", labels_per_class=6)
    run = do_run(source, tmp_path / "run", folds=folds, params={"tracks": tracks})
    model = run.model
    assert (model.held_out_ is not None) is run.results.is_calibrated is bool(folds)
    assert np.array_equal(model.raw_distributions_, model.label_distributions_) is not bool(folds)
    assert (model.folds_ is not None) is (bool(folds) or len(tracks) > 1)
    assert len(run.results.evaluation.folds) == (folds or 1)  # without folds, the test labels


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (FitOptions("papr"), "paper"),
        (FitOptions(threads=0), "--threads"),
        (FitOptions(device="nowhere"), "device"),
        (FitOptions(rivals=["boosted_tree"]), "Did you mean 'boosted_trees'"),
    ],
)
def test_wrong_options_are_refused_before_any_work(options, words):
    with pytest.raises(InputError, match=words):
        options.check()


def count(preset="default", has_graph=False, n_folds=0, **params):
    options = FitOptions(preset, {"n_epochs": 7, **params})
    return options.count_epochs(has_graph=has_graph, n_folds=n_folds)


def test_expected_epochs_follow_tracks_their_rounds_and_folds():
    assert count("literal", has_graph=True) == 7
    assert count("paper", has_graph=True) == 3 * 7
    assert count(tracks=["features"], n_rounds=2) == 2 * 7
    assert count(tracks=["linear"]) == 7  # a head on rows has one round
    assert count(n_folds=3, tracks=["features", "linear"]) == 4 * (2 + 1) * 7  # then all labels


def test_a_fit_takes_no_more_epochs_than_expected(tested_run):
    run, seen = tested_run
    n_epochs = sum(event.epoch > 0 for event in seen)
    assert len(run.model.history_) < n_epochs <= run.n_epochs


def test_of_several_processes_each_has_its_rows_and_the_first_has_results(
    tmp_path, together, blobs
):
    options = FitOptions("paper", {"n_epochs": 5}, rivals=["logistic_regression"])

    def work(peers):
        run = Run(Source("blobs", labels_per_class=4, peers=peers), options, tmp_path / "run")
        run.prepare()
        assert run.source.data.features.nnz == 0  # nobody keeps them all
        run.fit()
        run.write()
        run.close()
        return run.source.local_rows[0], run.results

    rows, (results, none) = zip(*together(2, work))
    assert abs(sp.vstack(rows) - blobs.features).max() == 0
    assert none is None
    assert [score.title for score in results.evaluation.others] == ["logistic regression"]
    model = GLNNClassifier.load(tmp_path / "run")
    np.testing.assert_array_equal(model.label_distributions_, results.probabilities)
    assert abs(model.graph_ - results.adjacency).max() == 0
    known = model.predict_proba(blobs.features)
    np.testing.assert_array_equal(known, results.probabilities)


# Evaluation by folds


def has_estimate(source, folds):
    run = Run(source, FitOptions(folds=folds))
    return run.has_estimate


def test_folds_judge_without_test_labels_or_where_they_are_asked_for(judged_run, tmp_path):
    own, tested = judged_run[0].source, Source("blobs", labels_per_class=3)
    assert [has_estimate(own, folds) for folds in (None, 3, 0)] == [True, True, False]
    assert [has_estimate(tested, folds) for folds in (None, 3, 0)] == [False, True, False]
    plans = [Run(own, FitOptions(folds=folds, rivals="auto")).describe_plan() for folds in (3, 0)]
    assert ["rival" in plan for plan in plans] == [True, False]
    (tmp_path / "single.csv").write_text("id,x,label\na,1,u\nb,2,v\nc,3,\n")
    assert not has_estimate(Source(str(tmp_path / "single.csv")), 3)


def test_results_and_model_are_calibrated_by_the_folds_without_a_further_fit(judged_run):
    run, seen, wrong = judged_run
    model, evaluation = run.model, run.results.evaluation
    assert (model.label_distributions_ != model.raw_distributions_).any()
    assert model.held_out_ is evaluation.held_out
    last = max(k for k, event in enumerate(seen) if event.epoch)
    assert [event.stage for event in seen[last + 1 :]] == ["largest class"]
    assert set(run.results.suspects) <= set(np.flatnonzero(run.results.seen).tolist())
    assert set(run.results.suspects) & set(wrong.tolist())


def test_with_validation_nodes_each_fold_is_fitted(blobs, do_run, tmp_path):
    parts = {"train": np.arange(0, 40, 2), "val": np.arange(1, 40, 2)}
    write_data(blobs.replace(splits=parts, name="mine"), tmp_path / "mine.npz")
    seen = []
    source = Source(str(tmp_path / "mine.npz"))
    run = do_run(source, tmp_path / "run", seen.append, folds=3, params={"tracks": ["features"]})
    stages = [event.stage for event in seen if event.epoch == 0]
    assert [stage for stage in stages if stage.startswith("fold")] == [
        "fold 1 of 3",
        "fold 2 of 3",
        "fold 3 of 3",
    ]
    assert seen.count(Progress("classifier 1", 1, 3)) == 4  # the fit and three folds
    evaluation = run.results.evaluation
    assert run.model.held_out_ is evaluation.held_out
    assert np.isin(evaluation.held_out.hidden_nodes, parts["train"]).all()


# Labels


@pytest.mark.parametrize(
    ("names", "seen"),
    [(("a", "b", "c"), ["a", "b", "c", ""]), (("7", "10", "2"), [7, 10, 2, None])],
)
def test_only_labels_of_the_split_are_seen(names, seen):
    data = NodeData.from_arrays(np.eye(4), [0, 1, 2, 0], class_names=names)
    assert data.visible_labels(np.arange(3)).tolist() == seen


# Threads


def test_threads_are_set_for_the_block_only(monkeypatch):
    calls = []
    monkeypatch.setattr(torch, "set_num_threads", calls.append)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 8)
    for n_nodes, threads in ((100, None), (100, 3), (50_000, 3), (50_000, None)):
        with limit_threads(n_nodes, threads):
            pass
    assert calls == [1, 8, 1, 8, 3, 8, 8, 8]


# Graph of each round


@pytest.fixture(scope="module")
def features():
    rng = np.random.default_rng(0)
    return rng.normal(size=(40, 3)) + 3 * (np.arange(40) % 2)[:, None]


def test_terms_sum_to_the_objective(features):
    learned = learn_graph(features, n_neighbors=4)
    graph = SparseAdjacency.from_scipy(learned.adjacency)
    whole = float(learned.problem.objective(graph))
    assert sum(learned.problem.evaluate_terms(learned.adjacency).values()) == pytest.approx(whole)


@pytest.mark.parametrize("tracks", [["features"], None])
def test_the_rounds_are_those_that_led_to_the_graph(features, tracks):
    log = GraphLog()
    quick = {"n_epochs": 3, "n_rounds": 2, "random_state": 0, "calibrate": None}
    model = GLNNClassifier(**quick, tracks=tracks, callbacks=[log])
    model.fit(features, np.where(np.arange(40) < 12, np.arange(40) % 2, -1))
    rounds = collect_rounds(model.callbacks, model.graph_)
    assert [one.name for one in rounds] == ["round 1", "round 2"]
    assert (rounds[-1].graph != model.graph_).nnz == 0
    assert all(one.terms for one in rounds)
    again = GraphLog()
    again.load_state_dict(log.state_dict())
    for one, other in zip(rounds, again.rounds_to(model.graph_.copy())):
        assert (one.name, one.terms) == (other.name, other.terms)
        assert one.graph is other.graph
