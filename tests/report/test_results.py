import numpy as np

from glnn.report.results import accuracy


def test_predictions_are_class_numbers_of_the_largest_probability(results):
    np.testing.assert_array_equal(
        results.predictions, results.classes[results.probabilities.argmax(1)]
    )


def test_accuracy_counts_right_nodes_of_a_part(results):
    everyone = np.arange(20)
    assert accuracy(results.predictions, results.data.labels, everyone) == 19 / 20
    parts = [results.accuracy(part) for part in ("train", "test")]
    sizes = [results.split.train.size, results.split.test.size]
    assert np.dot(parts, sizes) == 19


def test_an_empty_part_has_no_accuracy(results):
    assert results.accuracy("val") is None


def test_class_names_follow_the_columns(results):
    assert results.class_names == list(results.data.class_names)
