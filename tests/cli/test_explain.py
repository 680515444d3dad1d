import json

import pytest


@pytest.fixture
def run(finished):
    return finished / "run"


def test_links_and_labels_of_a_node_are_printed_by_their_ids(glnn, run):
    outcome = glnn("explain", run, "p0")
    assert outcome.code == 0
    assert outcome.out.startswith("p0: predicted ")
    for words in (
        "Heaviest links, and what made them",
        "Labels that speak here, estimated",
        "similarity",
    ):
        assert words in outcome.out


def test_a_labelled_node_has_the_confidence_of_the_predictions_first(glnn, run):
    line = (run / "predictions.csv").read_text().splitlines()[1].split(",")
    assert line[:2] == ["p0", "cook"]
    head = " ".join(glnn("explain", run, "p0").out.split("Heaviest")[0].split())
    said = f"p0: predicted {line[2]} ({100 * float(line[3]):.1f} %) by fits without its label"
    assert head.startswith(said)
    assert "the fit that knew it" in head
    page = json.loads(glnn("explain", run, "p0", "--json").out)
    assert page["without_its_label"]["probability"] == pytest.approx(float(line[3]), rel=1e-5)
    assert page["calibrated"] is True
    other = json.loads(glnn("explain", run, "p30", "--json").out)
    assert other["without_its_label"] is None


def test_json_has_terms_that_sum_to_the_weight_of_every_link(glnn, run):
    page = json.loads(glnn("explain", run, "p1", "--json", "--links", 3).out)
    assert page["id"] == "p1" and 0 < len(page["links"]) <= 3
    for link in page["links"]:
        assert sum(link["terms"].values()) == pytest.approx(link["weight"], abs=1e-6)
    assert {voice["id"] for voice in page["voices"]} <= {f"p{k}" for k in range(100)}


def test_an_unknown_id_is_one_line_with_the_nearest_one(glnn, run):
    outcome = glnn("explain", run, "q0")
    assert outcome.code == 2
    assert outcome.err.count("\n") == 1
    assert "Did you mean" in outcome.err


def test_a_folder_without_a_run_is_one_line(glnn, tmp_path):
    outcome = glnn("explain", tmp_path, "p0")
    assert outcome.code == 2
    assert "must be a run folder" in outcome.err
