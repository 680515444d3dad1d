"""A made-up run for the page's tests: classes as blobs, links mostly within them."""

import base64
import gzip
import json

import numpy as np
import pytest
import scipy.sparse as sp

from glnn.data import Split
from glnn.data.node_data import extract_links
from glnn.report.columns import RowColumn
from glnn.report.links import LinkTerms
from glnn.report.results import Results, Round, Search

HOSTILE = "<script>alert(1)</script>"


def made_graph(rng, classes, n_links, pure):
    """Random symmetric links; a share ``pure`` of them joins nodes of one class."""
    n_nodes = len(classes)
    source, target = rng.integers(0, n_nodes, (2, n_links))
    near = rng.random(n_links) < pure
    for c in range(classes.max() + 1):
        own = near & (classes[source] == c)
        target[own] = rng.choice(np.flatnonzero(classes == c), own.sum())
    keep = source != target
    weight = rng.uniform(0.05, 1.0, n_links)[keep]
    graph = sp.csr_matrix((weight, (source[keep], target[keep])), shape=(n_nodes, n_nodes))
    return sp.csr_matrix(graph.maximum(graph.T))


def made_history(n_rounds=3, n_epochs=40):
    columns = ("loss", "validation_loss", "validation_accuracy")
    return tuple(
        {"stage": f"classifier {k + 1}", "epoch": e} | dict.fromkeys(columns, float(np.exp(-e / 9)))
        for k in range(n_rounds)
        for e in range(n_epochs)
    )


@pytest.fixture(scope="session")
def make_page(make_evaluation):
    """Return a function that makes results of the size asked for, with every section filled."""

    def made(n_nodes=120, n_classes=3, seed=0):
        rng = np.random.default_rng(seed)
        classes = rng.integers(0, n_classes, n_nodes)
        names = ("ash", "birch & oak", HOSTILE, *(f"class {k}" for k in range(3, n_classes)))
        wrong = rng.random(n_nodes) < np.where(classes == 1, 0.95, 0.1)  # the second class is weak
        said = np.where(wrong, rng.integers(0, n_classes, n_nodes), classes)
        sharp = rng.uniform(0.5, 0.99, n_nodes)[:, None]
        probabilities = np.where(np.eye(n_classes)[said] == 1, sharp, (1 - sharp) / (n_classes - 1))
        seen = rng.random(n_nodes) < 0.2
        known = seen | (rng.random(n_nodes) < 0.5)
        labels, nodes = np.where(known, classes, -1), np.arange(n_nodes)
        given = made_graph(rng, classes, 3 * n_nodes, 0.7)
        learned = made_graph(rng, classes, 2 * n_nodes, 0.95) + 0.5 * given
        n_links = extract_links(learned).nnz
        even = np.full((n_nodes, n_classes), 1 / n_classes)
        split = Split(nodes[seen], nodes[:0], nodes[known & ~seen], name="mine", seed=3)
        rivals = {"Largest class": even, "Truth": np.eye(n_classes)[classes]}
        return Results(
            name=f"Trees {HOSTILE}",
            ids=np.array([f"node-{k}" for k in nodes]),
            class_names=names[:n_classes],
            labels=labels,
            split=split,
            probabilities=probabilities,
            adjacency=sp.csr_matrix(learned),
            given=given,
            evaluation=make_evaluation(
                names[:n_classes], labels, probabilities, nodes[known], rivals, 2, ["a remark"]
            ),
            suspects=tuple(nodes[seen & wrong].tolist()),
            suggestions=tuple(rng.permutation(nodes[~seen])[:30].tolist()),
            columns=(
                RowColumn("age", np.where(nodes % 9 == 0, np.nan, rng.integers(18, 80, n_nodes))),
                RowColumn("city", nodes % 3, ("Lyon", HOSTILE, "Kraków")),
                RowColumn("since", 86400.0 * rng.integers(15_000, 19_000, n_nodes), is_date=True),
            ),
            id_name="tree",
            history=made_history(),
            rounds=(
                Round("round 1", sp.csr_matrix(given + learned), {"smooth": 3.0, "ridge": 1.0}),
                Round("round 2", learned, {"smooth": 2.0, "ridge": 1.5}),
                Round("round 3", learned, {"smooth": 1.9, "ridge": 1.6}),
            ),
            terms=LinkTerms(
                ("given", "similarity", "predictions", "penalties"),
                rng.normal(0.2, 0.2, (n_links, 4)),
                tuple(f"column {k}" for k in range(30)),
                rng.integers(0, 30, (n_links, 2)),
                rng.uniform(0.1, 0.5, (n_links, 2)),
            ),
            metric=tuple((f"column {k}", 1.0 / (1 + k)) for k in range(8)),
            settings={"n_epochs": 50, "n_rounds": 2},
            preset={"n_epochs": 300, "n_rounds": 2},
            choices={"given graph": "trusted", "n_rounds": 2},
            search=Search(
                "accuracy",
                (0.81, 0.79, 0.86),
                {"n_steps": (None, 3, 7), "learning_rate": (None, 0.002, 0.02)},
                verdict="about 84 % of unseen labels right (95 % interval 80–88 %)",
            ),
            facts={"seed": "3", "data digest": "sha256 0123"},
            command="glnn fit trees.csv --label kind --seed 3",
            notes=("2 rows without a label",),
        )

    return made


@pytest.fixture(scope="session")
def decode_block():
    """Return the inverse of ``encode_block``, as in the page's script."""

    def decode(text):
        whole = gzip.decompress(base64.b64decode(text))
        at = 4 + int.from_bytes(whole[:4], "little")
        words, arrays = {}, {}
        for entry in json.loads(whole[4:at]):
            n_entries = int(np.prod(entry["shape"]))
            size = n_entries * (1 if entry["kind"] == "json" else np.dtype(entry["kind"]).itemsize)
            block = whole[at : at + size]
            if entry["kind"] == "json":
                words = json.loads(block)
            else:
                kind = np.dtype(entry["kind"]).newbyteorder("<")
                arrays[entry["name"]] = np.frombuffer(block, kind).reshape(entry["shape"])
            at += size + -size % 4
        return words, arrays

    return decode
