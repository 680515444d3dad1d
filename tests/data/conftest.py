import http.server
import os
import string
import threading
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from glnn.data import NodeData

settings.register_profile(
    "records",  # the same records in every run, written to files without a look at the clock
    max_examples=40,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)

ORDINARY = st.text(st.sampled_from(string.ascii_letters + " _.-=+@'\"é,;<>&#\t漢"), min_size=1)
ANY_TEXT = st.text(
    st.characters(exclude_categories=("Cs", "Cc")) | st.sampled_from("\r\n\t"), min_size=1
)


@st.composite
def node_records(draw, *, text=ORDINARY, sorted_classes=True, max_nodes=8):
    """The fields of small records with awkward ids, names and values."""
    n_nodes, n_features = draw(st.integers(1, max_nodes)), draw(st.integers(1, 4))
    width = 32 if draw(st.booleans()) else 16
    value = st.just(0.0) | st.floats(width=width, allow_nan=False, allow_infinity=False)
    values = draw(st.lists(value, min_size=n_nodes * n_features, max_size=n_nodes * n_features))
    name = text.map(str.strip).filter(bool)  # readers strip the blanks around labels
    names = draw(st.lists(name, unique=True, max_size=3))
    labels = [draw(st.integers(-1, len(names) - 1)) for _ in range(n_nodes)]
    if sorted_classes:
        names, labels = used_in_order(names, labels)
    return {
        "features": sp.csr_matrix(np.array(values, dtype=np.float32).reshape(n_nodes, n_features)),
        "labels": np.array(labels, dtype=np.int64),
        "graph": draw(graphs(n_nodes)) if draw(st.booleans()) else None,
        "class_names": tuple(names),
        "splits": draw(splits_of(labels)),
        "ids": draw(ids_of(n_nodes, text)),
        "feature_names": draw(
            st.none() | feature_names_of(n_features, text),
        ),
    }


def used_in_order(names, labels):
    """Only classes with members, sorted as a reader of text would sort them."""
    kept = sorted({names[label] for label in labels if label >= 0})
    if all(is_canonical(name) for name in kept):
        kept.sort(key=int)
    return kept, [kept.index(names[label]) if label >= 0 else -1 for label in labels]


def is_canonical(name):
    return name.isascii() and name.lstrip("-").isdigit() and str(int(name)) == name


def feature_names_of(count, text):
    special = {"id", "label", "split"}
    usable = text.filter(lambda name: name.strip() and name not in special)
    lists = st.lists(usable, unique=True, min_size=count, max_size=count)
    return lists.map(tuple)


def ids_of(count, text):
    numbers = st.lists(
        st.integers(-(2**63), 2**63 - 1), unique=True, min_size=count, max_size=count
    )
    texts = st.lists(text, unique=True, min_size=count, max_size=count)
    return st.none() | numbers.map(lambda v: np.array(v, dtype=np.int64)) | texts.map(np.array)


@st.composite
def splits_of(draw, labels):
    if draw(st.booleans()):
        return {}
    parts = {}
    for node, label in enumerate(labels):
        key = draw(st.sampled_from(["train", "val", "test", None]))
        if label >= 0 and key is not None:
            parts.setdefault(key, []).append(node)
    return {key: np.array(nodes) for key, nodes in parts.items()}


@st.composite
def graphs(draw, n_nodes):
    """A symmetric graph with float32 weights."""
    dense = np.zeros((n_nodes, n_nodes), dtype=np.float32)
    weight = st.sampled_from([0.0, 0.0, 1.0]) | st.floats(2**-20, 2**20, width=32)
    for i in range(n_nodes):
        for j in range(i):
            dense[i, j] = dense[j, i] = draw(weight)
    return sp.csr_matrix(dense)


@pytest.fixture(scope="session")
def records():
    """Draw a record; the record is made outside the strategy, as its checks use randomness."""

    def draw(data, **options):
        return NodeData(**data.draw(node_records(**options)))

    return draw


@pytest.fixture(scope="session")
def any_text():
    return ANY_TEXT


@pytest.fixture
def small():
    """Six nodes with everything a record can have."""
    return NodeData(
        features=sp.csr_matrix(np.arange(12, dtype=np.float32).reshape(6, 2) % 5),
        labels=np.array([0, 1, -1, 1, 0, 2]),
        graph=sp.csr_matrix(
            np.diag(np.ones(5, np.float32), 1) + np.diag(np.ones(5, np.float32), -1)
        ),
        class_names=("a", "b", "c"),
        splits={"train": np.array([0, 1]), "val": np.array([3]), "test": np.array([4, 5])},
        ids=np.array(["n0", "n1", "=n2", "n,3", 'n"4', "é5"]),
        name="small",
        feature_names=("height", "weight"),
    )


@pytest.fixture
def published():
    """The folder of the published data sets; the test is skipped without one."""
    folder = os.environ.get("GLNN_DATA")
    if not folder:
        pytest.skip("GLNN_DATA is not set: the published data sets are not here")
    return Path(folder)


class Server:
    """A local web server that misbehaves as told: ``routes`` maps a path to a handler function."""

    def __init__(self):
        self.routes, self.requests = {}, []
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.0"

            def do_GET(self):
                outer.requests.append((self.path, self.headers.get("Range")))
                outer.routes.get(self.path, not_found)(self)

            def log_message(self, *arguments):
                pass

        self.http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.http.server_port}"
        threading.Thread(target=self.http.serve_forever, kwargs={"poll_interval": 0.02}).start()

    def serve(self, path, content):
        """Serve bytes, from the asked place on."""

        def answer(request):
            start = int((request.headers.get("Range") or "bytes=0-")[6:-1])
            request.send_response(206 if start else 200)
            request.send_header("Content-Length", str(len(content) - start))
            if start:
                last = len(content) - 1
                request.send_header("Content-Range", f"bytes {start}-{last}/{len(content)}")
            request.end_headers()
            request.wfile.write(content[start:])

        self.routes[path] = answer


def not_found(request):
    request.send_error(404)


@pytest.fixture
def server():
    running = Server()
    yield running
    running.http.shutdown()
    running.http.server_close()
