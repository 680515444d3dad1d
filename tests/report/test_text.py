import dataclasses
import tomllib
from pathlib import Path

import numpy as np

from glnn.quality.calibration import Calibration
from glnn.report.results import merge_held_out
from glnn.report.text import (
    EXTRAS,
    PACKAGES,
    UNCALIBRATED,
    certificate_sentences,
    evaluation_advice,
    fact_rows,
    final_notes,
    find_version,
    label_sentence,
    missing_class_line,
    missing_evaluation_lines,
    mixture_lines,
    package_versions,
    suspect_lines,
    uncalibrated_lines,
    verdict_line,
)

# Sentences


def test_facts_name_the_certificate_and_the_shares(results):
    rows = dict(fact_rows(results.facts, results.certificate))
    assert rows["edges"] == "91"
    said = "98.9 % (by chance 50.0 %) of 91 between test nodes"
    assert rows["edges that join equal labels"] == said
    assert rows["certificate (graph, not accuracy)"] == str(results.certificate)
    assert "edges added" not in rows


def test_labels_that_the_fit_has_seen_say_nothing_about_its_graph(results):
    unknown = dataclasses.replace(results.facts, equal_labels=None, n_labelled_edges=0)
    assert not any("labels" in name for name, _ in fact_rows(unknown, None))


def test_test_labels_give_the_verdict_where_no_estimate_does(results):
    assert verdict_line(results) == "too few labels to tell: 16"
    split = dataclasses.replace(results.split, train=np.empty(0, np.int64), test=np.arange(20))
    more = dataclasses.replace(results, split=split)
    assert verdict_line(more) == more.holdout.verdict.sentence
    assert verdict_line(more).startswith("about 95 % ± ")


def test_without_any_hidden_label_nothing_is_claimed(results):
    none = np.empty(0, np.int64)
    few = dataclasses.replace(results, split=dataclasses.replace(results.split, test=none))
    assert verdict_line(few) == "too few labels to tell: 4"
    many = dataclasses.replace(few, split=dataclasses.replace(few.split, train=np.arange(20)))
    assert verdict_line(many).startswith("not evaluated")
    assert "--no-estimate" in evaluation_advice(few)


def test_advice_can_be_followed_where_each_class_has_a_single_label(results):
    split = dataclasses.replace(results.split, train=np.array([0, 10]), test=np.empty(0, np.int64))
    single = dataclasses.replace(results, split=split)
    assert verdict_line(single) == "too few labels to tell: 2"
    assert "label more nodes, 20 or more" in evaluation_advice(single)
    assert "--" not in evaluation_advice(single)


def test_twenty_classes_of_one_label_cannot_be_judged_either(results):
    data = results.data.replace(labels=np.arange(20), class_names=tuple("abcdefghijklmnopqrst"))
    split = dataclasses.replace(results.split, train=np.arange(20), test=np.empty(0, np.int64))
    single = dataclasses.replace(results, data=data, split=split)
    assert (
        verdict_line(single)
        == "not evaluated: all labels were used for training, and none can be held out"
    )


def test_raw_probabilities_are_marked_and_calibrated_ones_are_not(results):
    assert uncalibrated_lines(results.calibration) == []
    assert uncalibrated_lines(None) == uncalibrated_lines(Calibration.identity(2)) == [UNCALIBRATED]


def test_a_given_graph_is_compared_with(results):
    facts = dataclasses.replace(results.facts, n_given=100, n_kept=80, n_added=11)
    rows = dict(fact_rows(facts, None))
    assert rows["given edges kept"] == "80 of 100"
    assert rows["edges added"] == "11"
    assert rows["certificate (graph, not accuracy)"] == "none"


def test_the_certificate_says_what_was_checked(certificate):
    text = " ".join(certificate_sentences(certificate))
    assert "100 candidate pairs (25.0 % of all pairs)" in text
    assert "2.0e-08" in text
    assert "a note" in text
    every = dataclasses.replace(certificate, support="all")
    assert "Every pair of nodes was checked" in " ".join(certificate_sentences(every))


def test_a_graph_that_is_not_optimal_is_called_so(certificate):
    failed = dataclasses.replace(certificate, converged=False)
    assert "NOT" in certificate_sentences(failed)[0]


def test_a_gap_below_rounding_is_not_called_nothing(certificate):
    exact = dataclasses.replace(certificate, gap=-1e-18)
    assert "more than 2.0e-14" in " ".join(certificate_sentences(exact))


def test_no_certificate_promises_nothing():
    assert "nothing is proven" in certificate_sentences(None)[0]


def test_labels_are_counted_by_their_use(results):
    sentence = label_sentence(results)
    assert "4 labels for training" in sentence
    assert "16 for the test" in sentence
    assert "seed 0" in sentence


# Notes and warnings


def test_doubtful_labels_are_named_and_the_rest_counted(judged_run, results):
    _, after, _, _, wrong = judged_run
    doubted = dataclasses.replace(after, suspects=tuple(wrong.tolist()))
    lines = suspect_lines(doubted, most=1)
    assert lines[0].startswith("4 given labels may be wrong")
    assert f"  {after.data.node_ids[wrong[0]]}: given" in lines[1]
    assert lines[2].startswith("  and 3 more")
    assert lines[0] in final_notes(doubted)
    assert suspect_lines(results) == []  # nothing was judged


def test_the_graph_problem_and_the_mixture_of_several_tracks_are_spoken_of(results):
    assert final_notes(results) == ["a note"]
    chosen = {"mixture": "learned 80%, far 20%", "given graph": "trusted to 100%"}
    several = {"tracks": ["learned", "far"], "chosen": chosen}
    found = final_notes(dataclasses.replace(results, settings=several))
    line = "mixture of tracks: learned 80%, far 20%; the given graph is trusted to 100%"
    assert found == ["a note", line]
    one = several | {"tracks": ["learned"]}
    assert final_notes(dataclasses.replace(results, settings=one)) == ["a note"]


def test_without_a_given_graph_no_trust_is_spoken_of(results):
    settings = {"tracks": ["features", "far"], "chosen": {"mixture": "far 100%"}}
    found = mixture_lines(dataclasses.replace(results, settings=settings))
    assert found == ["mixture of tracks: far 100%"]


def test_what_is_neither_judged_nor_compared_is_said_with_a_way_out(results, judged_run):
    assert missing_evaluation_lines(results, compare=True, n_processes=2) == []
    assert missing_evaluation_lines(judged_run[1], compare=True, n_processes=1) == []
    before = judged_run[0]
    assert missing_evaluation_lines(before, compare=False, n_processes=1) == []
    compared, several = (
        missing_evaluation_lines(before, compare=compare, n_processes=n_processes)
        for compare, n_processes in ((True, 1), (False, 2))
    )
    assert len(compared) == len(several) == 1
    assert compared[0].startswith("no comparison")
    assert "without --no-estimate" in compared[0]
    assert several[0].startswith("no estimate: a fit with several processes")
    assert all("--labels-per-class" in line for line in (*compared, *several))


def test_no_option_is_named_where_none_helps(results):
    split = dataclasses.replace(results.split, train=np.array([0, 10]), test=np.empty(0, np.int64))
    single = dataclasses.replace(results, split=split)
    (line,) = missing_evaluation_lines(single, compare=True, n_processes=1)
    assert "--" not in line
    assert "label more nodes" in line


def test_a_class_that_no_node_gets_is_said(results):
    assert missing_class_line(results) is None
    one = dataclasses.replace(results, probabilities=np.tile([0.9, 0.1], (20, 1)))
    assert missing_class_line(one).endswith("birch & $x$")
    assert missing_class_line(one) in final_notes(one)


def test_a_class_counts_as_predicted_where_the_shown_answers_have_it(judged_run):
    after = judged_run[1]
    first = np.tile(np.eye(3)[0], (after.data.n_nodes, 1))
    fitted = dataclasses.replace(after, probabilities=first)  # shown: what the folds say
    shown, _ = merge_held_out(fitted)
    assert len(set(shown.argmax(1).tolist())) == 3
    assert missing_class_line(fitted) is None
    told = dataclasses.replace(after.estimate, probabilities=first)
    assert missing_class_line(dataclasses.replace(fitted, estimate=told)) is not None


def test_raw_probabilities_are_said_and_calibrated_ones_are_not(judged_run):
    before, after = judged_run[:2]
    assert UNCALIBRATED in final_notes(dataclasses.replace(before, calibration=None))
    for results in (before, after):
        assert UNCALIBRATED not in final_notes(results)


# Versions of packages


def test_versions_name_python_and_every_package():
    assert set(package_versions()) == {"python", *PACKAGES}
    assert package_versions()["numpy"] == find_version("numpy")


def test_every_extra_brings_its_package():
    project = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["project"]
    for package, extra in EXTRAS.items():
        wanted = project["optional-dependencies"][extra]
        assert any(requirement.startswith(package) for requirement in wanted)
