"""A made-up run for the page's tests: classes as blobs, links mostly within them."""

import numpy as np
import pytest
import scipy.sparse as sp

from glnn.report.page.page_data import (
    ClassQuality,
    Curve,
    Graphs,
    Learning,
    LinkTerms,
    Nodes,
    PageData,
    PageEvaluation,
    PageMeasure,
    PageMethod,
    Round,
    RunRecipe,
    Search,
    extract_links,
)

HOSTILE = "<script>alert(1)</script>"


def made_graph(rng, classes, n_links, pure):
    """Random symmetric links; a share ``pure`` of them joins nodes of one class."""
    n_nodes = len(classes)
    by_class = [np.flatnonzero(classes == c) for c in range(classes.max() + 1)]
    source = rng.integers(0, n_nodes, n_links)
    target = rng.integers(0, n_nodes, n_links)
    near = rng.random(n_links) < pure
    for c, members in enumerate(by_class):
        own = near & (classes[source] == c)
        target[own] = rng.choice(members, own.sum())
    keep = source != target
    weight = rng.uniform(0.05, 1.0, n_links)[keep]
    graph = sp.csr_matrix((weight, (source[keep], target[keep])), shape=(n_nodes, n_nodes))
    graph = graph.maximum(graph.T)
    return sp.csr_matrix(graph)


def made_page(n_nodes=120, n_classes=3, seed=0, *, with_given=True, with_terms=True):
    """Return a page of the size asked for, with every section filled."""
    rng = np.random.default_rng(seed)
    classes = rng.integers(0, n_classes, n_nodes)
    names = ("ash", "birch & oak", HOSTILE, *(f"class {k}" for k in range(3, n_classes)))[
        :n_classes
    ]
    predicted = np.where(rng.random(n_nodes) < 0.85, classes, rng.integers(0, n_classes, n_nodes))
    sharp = rng.uniform(0.4, 0.99, n_nodes)
    probabilities = (
        np.full((n_nodes, n_classes), 1.0) * ((1 - sharp) / max(n_classes - 1, 1))[:, None]
    )
    probabilities[np.arange(n_nodes), predicted] = sharp
    seen = rng.random(n_nodes) < 0.2
    given = made_graph(rng, classes, 3 * n_nodes, 0.7)
    learned = made_graph(rng, classes, 2 * n_nodes, 0.95) + 0.5 * given.multiply(
        rng.random(given.shape) < 0.5 if n_nodes < 2000 else 1.0
    )
    learned = sp.csr_matrix(learned.maximum(learned.T))
    n_links = extract_links(learned).nnz
    terms = LinkTerms(
        ("given", "similarity", "predictions", "penalties"),
        rng.normal(0.2, 0.2, (n_links, 4)),
        tuple(f"column {k}" for k in range(30)),
        rng.integers(0, 30, (n_links, 2)),
        rng.uniform(0.1, 0.5, (n_links, 2)),
    )
    nodes = Nodes(
        [f"node-{k}" for k in range(n_nodes)],
        predicted,
        probabilities,
        np.where(seen | (rng.random(n_nodes) < 0.5), classes, -1),
        seen,
        predicted,
        seen & (predicted != classes),
    )
    return PageData(
        title=f"Trees {HOSTILE}",
        class_names=names,
        nodes=nodes,
        graphs=Graphs(learned, given if with_given else None, terms if with_terms else None),
        subtitle="24 labels for training, 60 for the test",
        evaluation=made_evaluation(names, nodes),
        learning=made_learning(given, learned),
        reproduce=RunRecipe(
            "glnn fit trees.csv --label kind --seed 3",
            (("seed", "3"), ("data", "sha256 0123"), ("glnn", "0.1.0")),
            (("n_epochs", "50", "300"),),
            (("n_epochs", "50"), ("n_rounds", "2")),
        ),
        notes=("2 rows without a label",),
        search=Search(
            "accuracy",
            (0.81, 0.79, 0.86),
            {"n_steps": (None, 3, 7), "learning_rate": (None, 0.002, 0.02)},
            ("learning_rate",),
            verdict="about 84 % of unseen labels right (95 % interval 80–88 %)",
        ),
    )


def made_evaluation(names, nodes):
    confusion = np.zeros((len(names), len(names)), dtype=np.int64)
    judged = nodes.truth >= 0
    np.add.at(confusion, (nodes.truth[judged], nodes.judged[judged]), 1)
    return PageEvaluation(
        "about 85 % of unseen labels right (95 % interval 81–89 %)",
        "good",
        "Five folds over 84 labelled nodes; 95 % intervals by bootstrap over nodes.",
        (
            PageMethod("GLNN", PageMeasure("accuracy", 0.85, 0.81, 0.89), is_own=True),
            PageMethod(
                "logistic regression",
                PageMeasure("accuracy", 0.81, 0.76, 0.85),
                PageMeasure("lead", 0.04, 0.01, 0.07),
            ),
            PageMethod(
                "largest class",
                PageMeasure("accuracy", 0.37, 0.31, 0.42),
                PageMeasure("lead", 0.48, 0.43, 0.55),
            ),
        ),
        (PageMeasure("log loss", 0.42, 0.35, 0.5), PageMeasure("macro-F1", 0.83, 0.8, 0.87)),
        tuple(
            ClassQuality(
                name,
                30,
                PageMeasure("precision", 0.8, 0.7, 0.9),
                PageMeasure("recall", 0.45 if k == 1 else 0.9, 0.3, 0.95),
            )
            for k, name in enumerate(names)
        ),
        confusion,
        tuple((0.1 * k + 0.05, 0.1 * k, 10 + k) for k in range(3, 10)),
        0.05,
        ("12 labels of class ash are few",),
    )


def made_learning(given, learned):
    epochs = 40
    loss = [float(np.exp(-k / 15)) for k in range(epochs)]
    return Learning(
        (
            Round(
                "round 1", sp.csr_matrix((given + learned) / 2), {"smoothness": 3.0, "ridge": 1.0}
            ),
            Round("round 2", learned, {"smoothness": 2.0, "ridge": 1.5}),
            Round("round 3", learned, {"smoothness": 1.9, "ridge": 1.6}),
        ),
        tuple(
            Curve(
                f"round {k}",
                {
                    "loss": loss,
                    "validation_loss": [2 * v for v in loss],
                    "validation_accuracy": [1 - v / 2 for v in loss],
                },
            )
            for k in (1, 2, 3)
        ),
        tuple((f"column {k}", 1.0 / (1 + k)) for k in range(8)),
        ("The graph is the best one for its objective: no weight is further than 1e-9.",),
        (("given graph", "trusted"), ("rounds", "2")),
    )


@pytest.fixture
def make_page():
    return made_page


@pytest.fixture
def make_learning():
    return made_learning
