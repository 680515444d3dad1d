"""The predictions of a run as a table: labelled nodes by fits that had not seen their label."""

from pathlib import Path

import numpy as np

from glnn.data import write_predictions
from glnn.report.results import FitResults


def write_node_predictions(path: Path, results: FitResults) -> None:
    """Write one line a node, with the label that it was given and whether that was hidden."""
    names, data = results.class_names, results.data
    probabilities, held_out = shown_probabilities(results)
    given = np.full(data.n_nodes, "", dtype=object)
    seen = np.concatenate([results.split.train, results.split.val])
    given[seen] = np.array(data.class_names, dtype=object)[data.labels[seen]]
    told = np.where(held_out, "yes", "no")
    write_predictions(
        path,
        data.ids,
        [names[k] for k in probabilities.argmax(1)],
        probabilities,
        names,
        given=given.tolist(),
        held_out=np.where(given == "", "", told).tolist(),
        spreadsheet_safe=True,
    )


def shown_probabilities(results: FitResults) -> tuple[np.ndarray, np.ndarray]:
    """Return probabilities of every node, and which come from fits without the node's label."""
    probabilities = np.array(results.probabilities, dtype=np.float64)
    held_out = np.zeros(len(probabilities), dtype=bool)
    if results.estimate is not None:
        nodes = results.estimate.held_out.judged
        probabilities[nodes] = results.estimate.probabilities[nodes]
        held_out[nodes] = True
    return probabilities, held_out
