import dataclasses

from glnn.report.words import certificate_sentences, fact_rows, label_sentence


def test_facts_name_the_certificate_and_the_shares(results):
    rows = dict(fact_rows(results.facts, results.certificate))
    assert rows["edges"] == "91"
    assert rows["edges that join equal labels"] == "98.9 %"
    assert rows["certificate"] == str(results.certificate)
    assert "edges added" not in rows


def test_a_share_of_few_labels_says_of_how_many(results):
    partly = dataclasses.replace(results.facts, n_labelled_edges=7)
    rows = dict(fact_rows(partly, None))
    assert rows["edges that join equal labels"] == "98.9 % of 7 with both labels known"


def test_a_given_graph_is_compared_with(results):
    facts = dataclasses.replace(results.facts, n_given=100, n_kept=80, n_added=11)
    rows = dict(fact_rows(facts, None))
    assert rows["given edges kept"] == "80 of 100"
    assert rows["edges added"] == "11"
    assert rows["certificate"] == "none"


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
