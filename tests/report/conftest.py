import numpy as np
import pytest
import scipy.sparse as sp

from glnn.data import Split, load_dataset, write_data
from glnn.data.labels import Folds
from glnn.quality import Evaluation, HeldOut, metrics
from glnn.quality.calibration import Calibration
from glnn.report.results import Results
from glnn.report.run import FitOptions, Run
from glnn.report.sources import Source
from glnn.solver import Certificate

NONE = np.empty(0, np.int64)


def made_evaluation(classes, labels, probabilities, nodes, rivals=None, n_folds=1, notes=()):
    """Judge some nodes; ``rivals`` maps names to their probabilities of all nodes."""
    hidden = np.full(len(labels), -1)
    hidden[nodes] = labels[nodes]
    nodes = np.flatnonzero(hidden >= 0)
    weights = metrics.bootstrap_weights(len(nodes), np.random.default_rng(0))
    own = metrics.ScoredPredictions(hidden[nodes], probabilities[nodes])
    others = []
    for name, said in (rivals or {}).items():
        found = metrics.ScoredPredictions(own.classes, said[nodes])
        intervals = metrics.metric_intervals(found, weights)
        lead = metrics.paired_difference(own, found, weights)
        others.append(metrics.Score(name.lower(), name, found, intervals, 1.0, lead))
    fold = np.arange(len(labels)) % n_folds
    return Evaluation(
        classes=np.array(list(classes)),
        folds=Folds(tuple(nodes[fold[nodes] == k] for k in range(n_folds)), (), NONE),
        held_out=HeldOut(probabilities, hidden, fold),
        calibration=Calibration.identity(len(classes)),
        probabilities=probabilities,
        own=metrics.Score("glnn", "GLNN", own, metrics.metric_intervals(own, weights), 1.5),
        others=tuple(others),
        per_class=tuple(metrics.class_intervals(own)),
        notes=tuple(notes),
    )


@pytest.fixture(scope="session")
def make_evaluation():
    return made_evaluation


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
        notes=("a note",),
    )


@pytest.fixture
def results(certificate):
    """Two classes on two cliques of ten joined by one edge; one node predicted wrong."""
    labels = np.repeat([0, 1], 10)
    dense = np.kron(np.eye(2), np.ones((10, 10)) - np.eye(10))
    dense[9, 10] = dense[10, 9] = 0.5
    probabilities = np.eye(2)[labels] * 0.8 + 0.1
    probabilities[0] = probabilities[0, ::-1]
    names = ("<b>ash</b>", "birch & $x$")
    test = np.setdiff1d(np.arange(20), [1, 2, 11, 12])
    stages = [(stage, k) for stage in ("classifier 1", "classifier 2") for k in range(3)]
    return Results(
        name="trees <i>",
        ids=np.arange(20),
        class_names=names,
        labels=labels,
        split=Split(np.array([1, 2, 11, 12]), NONE, test, name="per_class"),
        probabilities=probabilities,
        adjacency=sp.csr_matrix(dense),
        evaluation=made_evaluation(names, labels, probabilities, test),
        calibration=Calibration(1.0, 0.0, np.full(2, 0.5), n_labels=4),
        certificate=certificate,
        history=tuple({"stage": s, "epoch": k, "loss": 1.0 / (1 + k)} for s, k in stages),
        settings={"preset": "default", "head": {"n_epochs": 3}},
        preset={"preset": "default", "head": {"n_epochs": 300}},
        facts={"seed": "0", "source": "<script>alert(1)</script>"},
        seconds={"fit": 1.5},
        notes=("labels: left out 1 unknown id ('<x>')",),
    )


@pytest.fixture(scope="session")
def blobs():
    return load_dataset("blobs")


@pytest.fixture(scope="session")
def do_run():
    """Fit and write a run in a folder of its own, and return it."""

    def fitted(source, folder, on_progress=lambda event: None, n_epochs=3, **options):
        params = {"n_epochs": n_epochs, **options.pop("params", {})}
        run = Run(source, FitOptions(params=params, **options), folder)
        run.prepare(overwrite=True)
        try:
            run.fit(on_progress)
            run.write()
        finally:
            run.close()
        return run

    return fitted


@pytest.fixture(scope="session")
def tested_run(do_run, tmp_path_factory):
    """A fit to three labels of each class, scored on all others beside two rivals."""
    seen = []
    rivals = ["majority", "label_spreading"]
    source = Source("blobs", labels_per_class=3)
    how = {"rivals": rivals, "params": {"n_rounds": 1}}
    run = do_run(source, tmp_path_factory.mktemp("tested") / "run", seen.append, **how)
    return run, seen


@pytest.fixture(scope="session")
def judged_run(blobs, do_run, tmp_path_factory):
    """A fit to sixty labels of a table with ids, four of them wrong, judged in three folds."""
    folder, labels = tmp_path_factory.mktemp("judged"), blobs.labels.copy()
    known = np.concatenate([np.flatnonzero(labels == c)[:20] for c in range(3)])
    wrong = known[[0, 5, 25, 45]]
    labels[wrong] = (labels[wrong] + 1) % 3
    labels[np.setdiff1d(np.arange(300), known)] = -1
    data = blobs.replace(labels=labels, splits={}, ids=np.arange(300) + 1000, name="mine")
    write_data(data, folder / "mine.csv")
    options = {"folds": 3, "rivals": ["majority"], "params": {"tracks": ["features"]}}
    seen = []
    source = Source(str(folder / "mine.csv"))
    return do_run(source, folder / "run", seen.append, n_epochs=15, **options), seen, wrong
