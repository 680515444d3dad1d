import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from glnn import GLNNClassifier, learn_graph
from glnn._utils import limit_threads
from glnn.data import NodeData, Split
from glnn.engine.callbacks import Progress
from glnn.exceptions import InputError, OutputError
from glnn.graph.pairs import SparseAdjacency
from glnn.report.results import describe_settings
from glnn.report.run import (
    FitOptions,
    GraphLog,
    RunInputs,
    add_estimate,
    collect_rounds,
    evaluate_terms,
    index_classes,
    mask_test_labels,
    prepare_run,
    run_fit,
    select_test_labels,
    wants_estimate,
)
from glnn.report.run_folder import write_run
from glnn.report.sources import DataSpec, Source, choose_split

# The run

NONE = np.empty(0, dtype=np.int64)


def test_results_agree_with_the_estimator(opened_blobs):
    split, seen = choose_split(opened_blobs.data, 3, 0), []
    results, model = run_fit(
        RunInputs.of(Path(), opened_blobs, split),
        FitOptions(n_epochs=5, rivals=["label_spreading"]),
        on_progress=lambda event: seen.append(event.stage),
    )
    labels, test = opened_blobs.data.labels, split.test
    numbers = np.searchsorted(model.classes_, model.transduction_)
    np.testing.assert_array_equal(results.predictions, results.classes[numbers])
    assert results.scores[0].accuracy == np.mean(results.predictions[test] == labels[test])
    np.testing.assert_array_equal(results.adjacency.toarray(), model.graph_.toarray())
    assert [score.method for score in results.scores] == ["GLNN", "label spreading"]
    assert results.settings["tracks"] == ["features", "far", "linear", "hops"]
    assert list(model.mixture_) == results.settings["tracks"]
    for track in results.settings["track"].values():
        assert track["head"]["n_epochs"] == 5
    assert results.settings["chosen"] == model.choices_
    assert seen[-1] == "label spreading"
    assert "fold 1 of 5, features, graph 1" in seen  # which is that of all folds


ONE = FitOptions(n_epochs=3, extra_params={"tracks": ["features"]})
TWO = FitOptions(n_epochs=3, extra_params={"tracks": ["features", "linear"]})


@pytest.mark.parametrize("calibrates", [True, False])
@pytest.mark.parametrize("options", [ONE, TWO])
def test_labels_are_hidden_for_calibration_if_that_is_wanted(opened_blobs, options, calibrates):
    start = RunInputs.of(Path(), opened_blobs, choose_split(opened_blobs.data, 6, 0))
    results, model = run_fit(start, options, calibrate=calibrates)
    assert (model.held_out_ is not None) is calibrates
    is_raw = np.array_equal(model.raw_distributions_, results.probabilities)
    assert is_raw is not calibrates
    assert (results.calibration_method == "folds") is calibrates
    assert (model.folds_ is not None) is (calibrates or options is TWO)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (FitOptions("papr"), "paper"),
        (FitOptions(head="gnc"), "gcn"),
        (FitOptions(seed=-1), "--seed"),
        (FitOptions(threads=0), "--threads"),
        (FitOptions(n_epochs=0), "n_epochs"),
        (FitOptions(device="nowhere"), "device"),
        (FitOptions(rivals=["boosted_tree"]), "Did you mean 'boosted_trees'"),
        (FitOptions(class_weight="foo"), "--class-weight must be balanced, got 'foo'"),
    ],
)
def test_wrong_options_are_refused_before_any_work(options, words):
    with pytest.raises(InputError, match=words):
        options.check()


def count(preset="default", has_graph=False, n_folds=0, **params):
    options = FitOptions(preset, n_epochs=7, extra_params=params)
    return options.count_epochs(has_graph=has_graph, n_folds=n_folds)


def test_expected_epochs_follow_tracks_their_rounds_and_folds():
    assert count("literal", has_graph=True) == 7
    assert count("paper", has_graph=True) == 3 * 7
    assert count(tracks=["features"], n_rounds=2) == 2 * 7
    assert count(tracks=["linear"]) == 7  # a head on rows has one round
    assert count(tracks=["far", "linear"]) == (3 + 1) * 7
    assert count(n_folds=3, tracks=["far", "linear"]) == 4 * (3 + 1) * 7  # and then all labels
    assert count("paper", has_graph=True, n_folds=5) == 6 * 3 * 7


def test_a_fit_takes_no_more_epochs_than_expected(features):
    seen = []
    model = FitOptions(n_epochs=2).make_estimator(seen.append)
    model.fit(features, np.arange(40) % 2)
    n_epochs = sum(event.epoch > 0 for event in seen)
    assert n_epochs <= FitOptions(n_epochs=2).count_epochs(has_graph=False, n_folds=5)
    assert n_epochs > len(model.history_)  # those on folds are reported, too


def test_settings_are_those_of_the_tracks_that_are_trained(results):
    page = describe_settings(FitOptions().settings(), results.data)
    assert page["tracks"] == list(page["track"]) == ["features", "far", "linear", "hops"]
    assert page["track"]["features"]["graph"]["n_rounds"] == 2
    json.dumps(page)
    graph = results.data.replace(graph=results.adjacency)
    assert describe_settings(FitOptions().settings(), graph)["tracks"][0] == "learned"


READING = DataSpec(Source("blobs"), labels_per_class=4)


def test_preparing_refuses_wrong_input_and_takes_the_place_of_the_run(tmp_path):
    with pytest.raises(InputError, match="preset"):
        prepare_run(READING, FitOptions("papre"))
    start = prepare_run(READING, FitOptions(), tmp_path / "run")
    with pytest.raises(OutputError, match="one writer"):
        prepare_run(READING, FitOptions(), tmp_path / "run")
    start.release()
    assert list(tmp_path.iterdir()) == []  # nothing is made before there is something to write


def test_of_several_processes_each_has_its_rows_and_the_first_has_results(tmp_path, together):
    options = FitOptions("paper", n_epochs=5, rivals=["logistic_regression"])

    def work(peers):
        start = prepare_run(READING, options, tmp_path / "run", peers=peers)
        assert start.opened.data.features.nnz == 0  # nobody keeps them all
        found = run_fit(start, options, peers=peers)
        write_run(start.folder, start.opened, *found)
        return start.rows.features, found[0]

    rows, results = zip(*together(2, work))
    whole, *_ = READING.open()
    assert abs(sp.vstack(rows) - whole.data.features).max() == 0
    assert results[1] is None
    assert [score.method for score in results[0].scores] == ["GLNN", "logistic regression"]
    model = GLNNClassifier.load(tmp_path / "run")
    np.testing.assert_array_equal(model.label_distributions_, results[0].probabilities)
    assert abs(model.graph_ - results[0].adjacency).max() == 0
    known = model.predict_proba(whole.data.features)
    np.testing.assert_array_equal(known, results[0].probabilities)


# Estimate by cross-validation


def test_folds_judge_without_test_labels_or_where_they_are_asked_for(judged_run, results):
    before = judged_run[0]
    assert wants_estimate(before, None) and wants_estimate(before, 3)
    assert not wants_estimate(results, None)
    assert wants_estimate(results, 4)


def test_single_labels_cannot_be_judged(results):
    nodes = np.array([0, 10])
    none = np.empty(0, np.int64)
    split = dataclasses.replace(results.split, train=nodes, test=none)
    assert not wants_estimate(dataclasses.replace(results, split=split), None)


def test_results_and_model_are_calibrated_by_the_folds(judged_run):
    before, after, model, _, _ = judged_run
    for results in (before, after):
        np.testing.assert_array_equal(results.probabilities, model.label_distributions_)
    assert (model.label_distributions_ != model.raw_distributions_).any()
    assert model.held_out_ is after.estimate.held_out
    assert (before.calibration_method, after.calibration_method) == ("folds", "folds")
    assert after.calibration is model.calibration_


def test_the_estimate_of_a_fit_that_hid_labels_needs_no_further_fit(judged_run):
    told = judged_run[3]
    stages = [event.stage for event in told]
    assert stages[0] == "largest class"
    assert not any("fold" in stage or "classifier" in stage for stage in stages)


def test_with_validation_nodes_each_fold_is_fitted(opened_blobs):
    data = opened_blobs.data.replace(splits={}, name="mine")
    split = Split(np.arange(0, 40, 2), np.arange(1, 40, 2), NONE, name="all")
    inputs = RunInputs.of(Path(), dataclasses.replace(opened_blobs, data=data), split)
    told = []
    before, model = run_fit(inputs, ONE, calibrate=True)
    after = add_estimate(before, model, ONE, 3, told.append)
    stages = [event.stage for event in told if event.epoch == 0]
    assert stages[:3] == ["fold 1 of 3", "fold 2 of 3", "fold 3 of 3"]
    assert Progress("classifier 1", 1, 0) in told
    assert model.held_out_ is after.estimate.held_out
    assert np.isin(after.estimate.held_out.hidden_nodes, split.train).all()


# Labels


def named(*names):
    data = NodeData.from_arrays(np.eye(4), [0, 1, 2, 0], class_names=names)
    return data, Split(np.array([0, 1]), np.array([2]), np.array([3]), name="mine")


def test_only_labels_of_the_split_are_seen():
    data, split = named("a", "b", "c")
    assert mask_test_labels(data, split).tolist() == ["a", "b", "c", ""]
    whole, split = named("7", "10", "2")
    assert mask_test_labels(whole, split).tolist() == [7, 10, 2, None]


@pytest.mark.parametrize("names", [("7", "10", "2"), ("b", "a", "c"), ("1", "02", "x")])
def test_columns_of_the_estimator_are_found_in_the_data(names):
    data, split = named(*names)
    seen = mask_test_labels(data, split)[:3]
    classes = np.unique(seen)
    numbers = index_classes(data, classes)
    assert [data.class_names[number] for number in numbers] == [str(c) for c in classes]


def test_every_label_is_seen_or_hidden():
    data, split = named("a", "b", "c")
    assert select_test_labels(data, split).tolist() == [-1, -1, -1, 0]


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


@pytest.fixture
def features():
    rng = np.random.default_rng(0)
    return rng.normal(size=(40, 3)) + 3 * (np.arange(40) % 2)[:, None]


def test_terms_sum_to_the_objective(features):
    learned = learn_graph(features, n_neighbors=4)
    graph = SparseAdjacency.from_scipy(learned.adjacency)
    whole = float(learned.problem.objective(graph))
    assert sum(evaluate_terms(learned).values()) == pytest.approx(whole)


def test_a_fit_leaves_the_graph_of_every_round_and_the_last_is_its_own(features):
    log = GraphLog()
    quick = {"n_epochs": 10, "n_rounds": 2, "random_state": 0, "calibrate": None}
    model = GLNNClassifier(**quick, tracks=["features"], callbacks=[log])
    model.fit(features, np.arange(40) % 2)
    rounds = collect_rounds(model.callbacks, model.graph_)
    assert [one.name for one in rounds] == ["round 1", "round 2"]
    assert (rounds[-1].graph != model.graph_).nnz == 0
    assert all(one.terms for one in rounds)


def test_of_several_tracks_the_rounds_are_those_that_led_to_the_graph(features):
    log = GraphLog()
    quick = {"n_epochs": 3, "n_rounds": 2, "random_state": 0, "calibrate": None}
    model = GLNNClassifier(**quick, callbacks=[log])
    y = np.where(np.arange(40) < 12, np.arange(40) % 2, -1)
    model.fit(features, y)
    rounds = collect_rounds(model.callbacks, model.graph_)
    assert [one.name for one in rounds] == ["round 1", "round 2"]
    assert (rounds[-1].graph != model.graph_).nnz == 0
    again = GraphLog()
    again.load_state_dict(log.state_dict())
    for one, other in zip(rounds, again.rounds_to(model.graph_.copy())):
        assert (one.name, one.terms) == (other.name, other.terms)
        assert one.graph is other.graph


def log_of(*stages):
    """A log that has seen these stages, each the end of a round with a graph of its own."""
    log = GraphLog()
    for number, stage in enumerate(stages, start=1):
        log.on_stage_begin(stage, 3)
        log.on_round_end(int(stage[-1]), sp.identity(number, format="csr"))
    return log


def test_rounds_that_are_taken_again_replace_the_earlier_ones():
    log = log_of("far, classifier 1", "far, classifier 2", "learned, classifier 1")
    log.on_stage_begin("far, classifier 2", 3)
    log.on_round_end(2, sp.identity(9, format="csr"))
    found = log.rounds_to(sp.identity(9, format="csr"))
    assert [(one.name, one.graph.shape[0]) for one in found] == [("round 1", 1), ("round 2", 9)]
    assert log.rounds_to(sp.identity(2, format="csr")) == ()


def test_the_only_track_is_shown_whatever_its_graph():
    assert len(log_of("classifier 1", "classifier 2").rounds_to(sp.identity(7, format="csr"))) == 2


def test_a_try_that_was_not_taken_leaves_no_trace(features):
    log, taken = GraphLog(), learn_graph(features, n_neighbors=4)
    log.on_graph(1, taken)
    log.on_graph(1, learn_graph(features, n_neighbors=2))
    log.on_round_end(1, taken.adjacency)
    (only,) = log.rounds_to(taken.adjacency)
    assert only.graph is taken.adjacency
    assert only.terms == evaluate_terms(taken)


def test_a_graph_that_was_not_solved_for_has_no_terms(features):
    log, graph = GraphLog(), learn_graph(features, n_neighbors=4).adjacency
    log.on_round_end(1, graph)
    assert log.rounds_to(graph)[0].terms == {}


def test_without_a_log_nothing_is_known():
    graph = sp.identity(2, format="csr")
    assert collect_rounds(None, graph) == GraphLog().rounds_to(graph) == ()
