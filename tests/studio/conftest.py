"""A made-up session for the tests of server, page and widget."""

import threading

import numpy as np
import pandas as pd
import pytest

from glnn.exceptions import InputError
from glnn.report.page.subset import encode_block
from glnn.studio.journal import LabelState
from glnn.studio.server import StudioServer


class MadeSession:
    """What server, page and widget use of a session, with answers that need no fit."""

    def __init__(self, n_rows=60, classes=("ash", "birch", "oak"), ids=None, texts=None):
        self.ids = ids or [f"row {k}" for k in range(n_rows)]
        self.texts = texts or [("height", "12.5"), ("soil", "clay")]
        self.class_names = tuple(classes)
        self.now = LabelState({}, classes)
        self.fit = {"running": "", "seconds": 0.4, "kind": "quick", "n_labels": 3, "error": ""}
        self.fit_version, self.verdict, self.curve = 1, "no estimate yet: label more rows", []
        self.listeners, self.acts, self.lock = [], [], threading.Lock()

    def act(self, message):
        with self.lock:
            self.acts.append(message)
            name = message.get("act")
            if name in ("label", "skip", "unsure"):
                if message.get("id") not in self.ids:
                    raise InputError("id must be that of a row of the table, got another.")
                self.now.apply(dict(message))
            elif name == "undo":
                self.now.apply({"act": "undo"})
            elif name not in ("next", "state", "card", "fit"):
                raise InputError(f"act must be one of those, got {name!r}.")
        if name not in ("next", "state", "card"):
            self.notify()
        state = self.state(message.get("since", 0))
        if name == "card":
            state["card"] = self.card(message["id"], "chosen", "")
        return state

    def state(self, since):
        now = self.now
        counts = {"labelled": len(now.labels), "skipped": len(now.skipped)}
        counts["unsure"] = len(now.unsure)
        values = list(now.labels.values())
        left = [name for name in self.ids if now.status(name) == "open"][:1]
        last = now.acts[-1] if now.acts else None
        return {
            "version": now.n_entries,
            "fit_version": self.fit_version,
            "name": "Trees",
            "id_name": "tree",
            "n_rows": len(self.ids),
            "counts": counts | {"open": len(self.ids) - sum(counts.values())},
            "classes": [{"name": c, "count": values.count(c)} for c in now.classes],
            "undo": last and {key: last.get(key) for key in ("act", "id", "value")},
            "proposals": [self.card(name, "suggested", "its classes are close") for name in left],
            "fit": self.fit,
            "verdict": self.verdict,
            "curve": self.curve,
            "changes": [
                {"id": row, "status": now.status(row), "label": now.labels.get(row)}
                for row, number in now.changed.items()
                if number > since
            ],
        }

    def card(self, name, kind, reason):
        row = self.ids.index(name)
        shares = np.roll(np.array([0.7, 0.2, 0.1]), row)[: len(self.class_names)]
        pairs = sorted(zip(self.class_names, shares.tolist()), key=lambda pair: -pair[1])
        near = [self.ids[(row + k) % len(self.ids)] for k in (1, 2)]
        return {
            "id": name,
            "row": row,
            "kind": kind,
            "reason": reason,
            "values": [list(pair) for pair in self.texts],
            "status": self.now.status(name),
            "label": self.now.labels.get(name),
            "predicted": pairs[0][0] if pairs else None,
            "probabilities": [list(pair) for pair in pairs],
            "neighbours": [
                {"id": n, "weight": 0.5, "label": self.now.labels.get(n), "predicted": pairs[0][0]}
                for n in near
            ],
        }

    def map_data(self):
        n, rng = len(self.ids), np.random.default_rng(0)
        n_classes = len(self.class_names)
        predicted = rng.integers(1, n_classes + 1, n)
        source, target = rng.integers(0, n, (2, 2 * n))
        source, target = source[source != target], target[source != target]
        places = rng.normal(size=(n, 2)) + 5 * np.stack([predicted % 2, predicted // 2], 1)
        places = (places - places.min(0)) / np.ptp(places, 0)
        chances = np.where(np.eye(n_classes)[predicted - 1] == 1, 0.8, 0.1)
        labels = [self.now.labels.get(name) for name in self.ids]
        truth = [0 if c is None else self.now.classes.index(c) + 1 for c in labels]
        words = {"ids": self.ids, "classes": list(self.class_names), "topWeight": 1.0, "next": []}
        words |= {"hasGiven": False, "idName": "tree", "table": []}
        arrays = {
            "places": (65535 * places).astype(np.uint16),
            "predicted": predicted.astype(np.uint16),
            "truth": np.array(truth, np.uint16),
            "judged": np.zeros(n, np.uint16),
            "flags": (np.array(truth) > 0).astype(np.uint8),
            "probabilities": (65535 * chances).astype(np.uint16),
            "source": source.astype(np.uint16),
            "target": target.astype(np.uint16),
            "weight": rng.integers(1, 65535, len(source)).astype(np.uint16),
            "fate": np.ones(len(source), np.uint8),
            "degree": np.bincount(source, minlength=n).astype(np.uint32),
            "cells": np.zeros((0, n), np.uint16),
            "groups": np.zeros((0, n), np.uint8),
        }
        return encode_block(words, arrays)

    def labels_csv(self):
        lines = [("id", "label"), *self.now.labels.items()]
        return "".join(f"{row},{value}\n" for row, value in lines)

    def listen(self, callback):
        self.listeners.append(callback)
        return lambda: self.listeners.remove(callback)

    def notify(self):
        for callback in self.listeners:
            callback()


@pytest.fixture(scope="session")
def make_session():
    return MadeSession


@pytest.fixture(scope="module")
def start_server():
    """Return a function that serves a session in a thread until the module's tests end."""
    running = []

    def started(session):
        server = StudioServer(session)
        thread = threading.Thread(target=server.run)
        thread.start()
        running.append((server, thread))
        return server

    yield started
    for server, thread in running:
        server.stop()
        thread.join(10)
        assert not thread.is_alive()


@pytest.fixture
def open_tab(open_tab):
    """Return a function that opens an address of the studio and waits for its first row."""
    api = pytest.importorskip("playwright.sync_api")

    def opened(url, **size):
        tab = open_tab(url, **size)
        api.expect(tab.locator("#row-title")).not_to_have_text("No row yet")
        return tab

    opened.wrong = open_tab.wrong
    return opened


@pytest.fixture
def people(tmp_path):
    """Return a function that writes a table of two clouds of rows, with some labels."""

    def write(n_rows, labels=None):
        rng = np.random.default_rng(0)
        odd = np.arange(n_rows) % 2
        frame = pd.DataFrame({"id": [f"p{k}" for k in range(n_rows)]})
        frame["height"] = rng.normal(size=n_rows) + 4 * odd
        frame["width"] = rng.normal(size=n_rows) - 4 * odd
        frame["soil"] = np.where(rng.random(n_rows) < 0.2 + 0.6 * odd, "clay", "sand")
        if labels is not None:
            frame["label"] = [labels.get(k, "") for k in range(n_rows)]
        path = tmp_path / "people.csv"
        frame.to_csv(path, index=False)
        return path

    return write
