import dataclasses
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from glnn.data import NodeData, make_split
from glnn.engine.callbacks import History
from glnn.quality.calibration import Calibration
from glnn.report.results import FitResults, GraphFacts, Score
from glnn.report.run import FitOptions, RunInputs, add_estimate, run_fit
from glnn.report.sources import Source, choose_split
from glnn.solver import Certificate


@pytest.fixture
def certificate():
    return Certificate(
        max_violation=1e-9,
        gap=2e-8,
        relative_gap=1e-9,
        objective=20.0,
        pairs_checked=0.25,
        n_pairs_checked=100,
        support="candidates",
        converged=True,
        reading="trace",
        notes=("a note",),
    )


@pytest.fixture
def results(certificate):
    """Two classes on two cliques of ten joined by one edge; one node predicted wrong."""
    labels = np.repeat([0, 1], 10)
    clique = np.ones((10, 10)) - np.eye(10)
    dense = np.kron(np.eye(2), clique)
    dense[9, 10] = dense[10, 9] = 0.5
    adjacency = sp.csr_matrix(dense)
    data = NodeData.from_arrays(
        np.random.default_rng(0).normal(size=(20, 3)),
        labels,
        class_names=("<b>ash</b>", "birch & $x$"),
        name="trees <i>",
        provenance={"source": "<script>alert(1)</script>"},
    )
    probabilities = np.eye(2)[labels] * 0.8 + 0.1
    probabilities[0] = probabilities[0, ::-1]
    split = make_split(data, "per_class", 0, n_per_class=2, n_val=0, n_test=16)
    history = History()
    for stage in ("classifier 1", "classifier 2"):
        for epoch in range(3):
            history.append({"stage": stage, "epoch": epoch, "loss": 1.0 / (1 + epoch)})
    return FitResults(
        data=data,
        split=split,
        classes=np.array([0, 1]),
        probabilities=probabilities,
        adjacency=adjacency,
        certificate=certificate,
        facts=GraphFacts.of(adjacency, labels),
        scores=(Score("GLNN", 0.95, 1.5), Score("other <u>", None, 0.0, "not installed")),
        history=history,
        settings={"preset": "default", "head": {"n_epochs": 3}},
        seconds={"fit": 1.5},
        notes=("labels: left out 1 unknown id ('<x>')",),
        calibration=Calibration(1.0, 0.0, np.full(2, 0.5), n_labels=4),
    )


@pytest.fixture(scope="session")
def opened_blobs():
    return Source("blobs").open()


@pytest.fixture(scope="session")
def judged_run(opened_blobs):
    """A fit to sixty labels, four of them wrong, judged in three folds."""
    data = opened_blobs.data
    labels = data.labels.copy()
    known = np.concatenate([np.flatnonzero(labels == c)[:20] for c in range(3)])
    wrong = known[[0, 5, 25, 45]]
    labels[wrong] = (labels[wrong] + 1) % 3
    labels[np.setdiff1d(np.arange(data.n_nodes), known)] = -1
    opened = dataclasses.replace(
        opened_blobs, data=data.replace(labels=labels, splits={}, name="mine")
    )
    split = choose_split(opened.data, None, 0)
    rivals = ["majority", "logistic_regression"]
    options = FitOptions(n_epochs=15, rivals=rivals, extra_params={"tracks": ["features"]})
    before, model = run_fit(RunInputs.of(Path(), opened, split), options, calibrate=True, n_folds=3)
    told = []
    after = add_estimate(before, model, options, 3, told.append)
    return before, after, model, told, wrong
