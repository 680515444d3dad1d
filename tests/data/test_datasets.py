import dataclasses
import hashlib
import time
from pathlib import Path

import numpy as np
import pytest
import sklearn.datasets

from glnn.data import datasets, fetch_dataset, load_dataset
from glnn.data.datasets import BUILT_IN, DATASETS, download
from glnn.exceptions import DataFormatError, DownloadError, InputError

# Data sets by name

FIVE = ["cora", "citeseer", "pubmed", "terrorattack", "terroristsrel"]


@pytest.mark.dataset
@pytest.mark.parametrize("name", FIVE)
def test_published_sets_load_quickly_with_their_counts(published, name):
    start = time.perf_counter()
    data = load_dataset(name)
    assert time.perf_counter() - start < 5
    info = datasets.DATASETS[name]
    found = (data.n_nodes, data.n_edges, data.n_features, data.n_classes)
    assert found == (info.n_nodes, info.n_edges, info.n_features, info.n_classes)
    assert data.name == name


@pytest.mark.dataset
def test_published_quirks_are_as_documented(published):
    citeseer = load_dataset("citeseer")
    fillers = np.flatnonzero(citeseer.labels < 0)
    assert fillers[:3].tolist() == [2407, 2489, 2553]
    assert citeseer.features[fillers].nnz == 0
    assert citeseer.graph[fillers].nnz > 0  # not isolated, as is often said
    attack, org = load_dataset("terrorattack"), load_dataset("terrorattack", graph="loc_org")
    assert org.n_edges == 571
    assert org.graph.multiply(attack.graph).nnz == org.graph.nnz  # a part of the other
    assert load_dataset("terroristsrel").homophily == pytest.approx(0.883, abs=1e-3)


def test_a_set_that_is_not_here_says_how_to_get_it(tmp_path, monkeypatch):
    monkeypatch.setenv("GLNN_DATA", str(tmp_path / "named"))
    monkeypatch.setattr(datasets, "cache_folder", lambda: tmp_path / "cache")
    with pytest.raises(InputError, match=r"glnn data fetch cora.*GLNN_DATA") as caught:
        load_dataset("cora")
    assert str(tmp_path / "named") in str(caught.value)
    assert str(tmp_path / "cache") in str(caught.value)


# Built-in data sets


@pytest.mark.parametrize("name", ["digits", "wine", "breast_cancer"])
def test_tables_of_scikit_learn_come_as_they_are(name):
    data = BUILT_IN[name]()
    bunch = getattr(sklearn.datasets, f"load_{name}")()
    assert np.array_equal(data.features.toarray(), bunch.data.astype(np.float32))
    assert data.labels.tolist() == bunch.target.tolist()
    assert data.graph is None
    assert len(data.feature_names) == data.n_features


@pytest.mark.parametrize("name", BUILT_IN)
def test_the_listed_counts_are_true(name):
    data, info = BUILT_IN[name](), DATASETS[name]
    found = (data.n_nodes, data.n_edges, data.n_features, data.n_classes)
    assert found == (info.n_nodes, info.n_edges, info.n_features, info.n_classes)
    assert data.name == name


# Fetching

FILES = {"a.txt": b"first\nsecond\n", "b.txt": b"more"}


@pytest.mark.dataset
def test_digests_are_those_of_the_published_files(published):
    sums = published / "raw" / "SHA256SUMS"
    if not sums.is_file():
        pytest.skip("raw/SHA256SUMS is not in GLNN_DATA")
    listed = {Path(name): digest for digest, name in map(str.split, sums.read_text().splitlines())}
    for raw in DATASETS.values():
        for name, digest in raw.sha256.items():
            assert listed[Path(raw.folder) / name] == digest


@pytest.mark.dataset
@pytest.mark.parametrize("name", ["cora", "terrorattack"])
def test_a_set_is_fetched_from_a_server_once(published, server, tmp_path, monkeypatch, name):
    files = DATASETS[name]
    raw = published / "raw" / files.folder
    if not raw.is_dir():
        pytest.skip("the raw files are not in GLNN_DATA")
    for file in files.sha256:
        server.serve(f"/{file}", (raw / file).read_bytes())
    local = dataclasses.replace(files, base_url=f"{server.url}/")
    monkeypatch.setitem(datasets.DATASETS, name, local)
    monkeypatch.setattr(datasets, "cache_folder", lambda: tmp_path)
    victim = tmp_path / "raw" / files.folder / next(iter(files.sha256))
    victim.parent.mkdir(parents=True)
    victim.write_bytes(b"damaged")
    with pytest.raises(DataFormatError, match="must be the published file"):
        load_dataset(name, folder=tmp_path)
    assert fetch_dataset(name) == tmp_path / f"{name}.npz"
    assert len(server.requests) == len(files.sha256)
    for graph in ("default", *DATASETS[name].graphs):
        expected = load_dataset(name, graph=graph, folder=published)
        assert load_dataset(name, folder=tmp_path, graph=graph).equals(expected)
    (tmp_path / f"{name}.npz").unlink()
    assert load_dataset(name, folder=tmp_path).n_edges == DATASETS[name].n_edges  # raw files
    fetch_dataset(name)
    assert len(server.requests) == len(files.sha256)


def test_without_success_one_line_says_what_to_do_by_hand(server, tmp_path, monkeypatch):
    digests = {name: hashlib.sha256(content).hexdigest() for name, content in FILES.items()}
    toy = {"folder": "Toy", "base_url": f"{server.url}/", "sha256": digests}
    changed = dataclasses.replace(DATASETS["cora"], **toy)
    monkeypatch.setitem(datasets.DATASETS, "cora", changed)
    with pytest.raises(DownloadError) as caught:
        fetch_dataset("cora", folder=tmp_path)
    text = str(caught.value)
    assert "\n" not in text
    for part in ("404", "a.txt, b.txt", str(tmp_path / "raw" / "Toy"), "glnn data fetch cora"):
        assert part in text


# Downloading

CONTENT = bytes(range(256)) * 2000
DIGEST = hashlib.sha256(CONTENT).hexdigest()


def fetch(server, target, path="/file", **options):
    return download(server.url + path, target, DIGEST, **{"timeout": 5, **options})


@pytest.mark.parametrize("shown", [True, False])
def test_a_file_comes_whole_with_its_progress(server, tmp_path, shown, capsys):
    server.serve("/file", CONTENT)
    target = tmp_path / "deep" / "folder" / "file"
    fetch(server, target, show_progress=shown)
    assert target.read_bytes() == CONTENT
    assert ("100%" in capsys.readouterr().err) == shown
    assert [p.name for p in target.parent.iterdir()] == ["file"]


def test_a_wrong_digest_is_refused_and_nothing_stays(server, tmp_path):
    server.serve("/file", b"something else")
    with pytest.raises(DownloadError, match="must have sha256") as caught:
        fetch(server, tmp_path / "file")
    assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def cut_until(server, n_cut):
    """Close the connection in the middle of the first answers, then serve the whole."""
    n_asked = 0

    def answer(request):
        nonlocal n_asked
        n_asked += 1
        request.send_response(200)
        request.send_header("Content-Length", str(len(CONTENT)))
        request.end_headers()
        request.wfile.write(CONTENT[: 200_000 if n_asked <= n_cut else None])

    server.routes["/file"] = answer


def test_a_cut_connection_is_asked_again(server, tmp_path):
    cut_until(server, 1)
    fetch(server, tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == CONTENT
    assert len(server.requests) == 2


@pytest.mark.parametrize("place", ["file:///etc/hostname", "ftp://127.0.0.1/x", "/old"])
def test_redirects_to_other_places_or_in_circles_are_refused(server, tmp_path, place):
    def move(request):
        request.send_response(302)
        request.send_header("Location", place)
        request.end_headers()

    server.routes["/old"] = move
    with pytest.raises(DownloadError):
        fetch(server, tmp_path / "file", "/old")
    assert not (tmp_path / "file").exists()


def test_a_server_that_says_nothing_is_given_up(server, tmp_path):
    server.routes["/file"] = lambda request: time.sleep(1)
    with pytest.raises(DownloadError, match="timed out"):
        fetch(server, tmp_path / "file", timeout=0.2)
