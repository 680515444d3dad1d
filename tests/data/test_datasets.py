import hashlib
import io
import re
import shutil
import socket
import tarfile
import time
from pathlib import Path
from types import MappingProxyType

import numpy as np
import pytest
import sklearn.datasets

from glnn.data import datasets, fetch_dataset, load_dataset
from glnn.data.datasets import (
    BUILT_IN,
    DATASETS,
    RAW_FILES,
    Origin,
    RawFiles,
    _ProgressBar,
    download,
    file_sha256,
)
from glnn.data.npz import write_node_npz
from glnn.data.planetoid import CLASS_NAMES, PARTS
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


@pytest.mark.dataset
def test_a_set_can_be_fetched_from_a_server_with_the_published_files(published, server, tmp_path):
    raw = published / "raw" / "planetoid"
    if not raw.is_dir():
        pytest.skip("the raw files are not in GLNN_DATA")
    for name in RAW_FILES["cora"].sha256:
        server.serve(f"/{name}", (raw / name).read_bytes())
    path = fetch_dataset("cora", folder=tmp_path, origins=(Origin(f"{server.url}/"),))
    assert path == tmp_path / "cora.npz"
    assert load_dataset("cora", folder=tmp_path).equals(load_dataset("cora"))


@pytest.mark.dataset
def test_raw_files_in_the_folder_are_enough(published, tmp_path):
    raw = published / "raw" / "TerrorAttack"
    if not raw.is_dir():
        pytest.skip("the raw files are not in GLNN_DATA")
    shutil.copytree(raw, tmp_path / "raw" / "TerrorAttack")
    assert load_dataset("terrorattack", folder=tmp_path).n_edges == 3172


def test_an_unknown_name_is_answered_with_the_nearest():
    with pytest.raises(InputError, match="Did you mean 'citeseer'"):
        load_dataset("citeser")


def test_a_set_that_is_not_here_says_how_to_get_it(tmp_path, monkeypatch):
    monkeypatch.setenv("GLNN_DATA", str(tmp_path / "named"))
    monkeypatch.setattr(datasets, "cache_folder", lambda: tmp_path / "cache")
    with pytest.raises(InputError, match=r"glnn data fetch cora.*GLNN_DATA") as caught:
        load_dataset("cora")
    assert str(tmp_path / "named") in str(caught.value)
    assert str(tmp_path / "cache") in str(caught.value)


def test_folders_are_searched_in_order(tmp_path, monkeypatch):
    monkeypatch.setenv("GLNN_DATA", "named")
    assert [str(f) for f in datasets.data_folders("given")] == ["given"]
    assert str(datasets.data_folders()[0]) == "named"
    monkeypatch.delenv("GLNN_DATA")
    assert datasets.data_folders() == (datasets.cache_folder(),)


def test_another_file_of_that_name_is_not_taken_for_the_set(small, tmp_path):
    write_node_npz(small, tmp_path / "cora.npz")
    with pytest.raises(DataFormatError, match="cora must have 2708 nodes"):
        load_dataset("cora", folder=tmp_path)


def test_a_graph_the_set_does_not_have_is_refused():
    with pytest.raises(InputError, match="graph must be one of default"):
        load_dataset("wine", graph="loc_org")


def test_what_comes_with_glnn_is_not_fetched(tmp_path):
    with pytest.raises(InputError, match="comes with glnn"):
        fetch_dataset("wine", folder=tmp_path)


def test_without_network_the_way_by_hand_is_told(tmp_path):
    with pytest.raises(DownloadError, match=r"To do it by hand, download ind.cora.allx"):
        fetch_dataset("cora", folder=tmp_path, origins=(Origin("http://127.0.0.1:9/"),), timeout=1)


def test_a_set_is_fetched_into_the_cache_or_into_the_folder_that_is_named(tmp_path, monkeypatch):
    seen = []

    def fetched(name, folder, **how):
        seen.append((folder, how["timeout"]))
        raise DownloadError("no")

    monkeypatch.setattr(datasets, "fetch_raw", fetched)
    monkeypatch.setattr(datasets, "cache_folder", lambda: tmp_path / "cache")
    for folder in (None, tmp_path / "own"):
        with pytest.raises(DownloadError):
            fetch_dataset("cora", folder=folder)
    assert seen == [(tmp_path / "cache", 30.0), (tmp_path / "own", 30.0)]


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


# Origins and digests


def test_every_file_has_a_digest_and_an_origin():
    for raw in RAW_FILES.values():
        assert all(re.fullmatch("[0-9a-f]{64}", digest) for digest in raw.sha256.values())
        assert all(origin.base_url.startswith("https://") for origin in raw.origins)
        assert all(origin.base_url.endswith("/") for origin in raw.origins)


def test_planetoid_sets_list_the_eight_files():
    for name in CLASS_NAMES:
        files = {f"ind.{name}.{part}" for part in (*PARTS, "test.index")}
        assert set(RAW_FILES[name].sha256) == files and len(files) == 8


@pytest.mark.dataset
def test_digests_are_those_of_the_published_files(published):
    sums = published / "raw" / "SHA256SUMS"
    if not sums.is_file():
        pytest.skip("raw/SHA256SUMS is not in GLNN_DATA")
    listed = {Path(name): digest for digest, name in map(str.split, sums.read_text().splitlines())}
    for raw in RAW_FILES.values():
        for name, digest in raw.sha256.items():
            assert listed[Path(raw.folder) / name] == digest


def test_a_published_file_has_at_most_64_mib():
    assert datasets.MAX_DOWNLOAD == 64 * 2**20


# Fetching

FILES = {"a.txt": b"first\nsecond\n", "b.txt": b"more"}


@pytest.fixture
def toy(monkeypatch, server):
    """A data set of two small files at the local server."""
    digests = {name: hashlib.sha256(content).hexdigest() for name, content in FILES.items()}
    raw = RawFiles("Toy", MappingProxyType(digests), (Origin(f"{server.url}/data/"),))
    monkeypatch.setitem(datasets.RAW_FILES, "toy", raw)
    for name, content in FILES.items():
        server.serve(f"/data/{name}", content)
    return server


def archive(members):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as tar:
        for name, content in members.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    return out.getvalue()


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_files_come_to_the_folder_of_raw_files(toy, tmp_path):
    assert datasets.fetch_raw("toy", tmp_path) == tmp_path / "raw" / "Toy"
    assert contents(tmp_path / "raw" / "Toy") == FILES


def test_files_that_are_there_are_not_asked_for_again(toy, tmp_path):
    folder = tmp_path / "raw" / "Toy"
    folder.mkdir(parents=True)
    (folder / "a.txt").write_bytes(FILES["a.txt"])
    (folder / "b.txt").write_bytes(b"damaged")
    datasets.fetch_raw("toy", tmp_path)
    assert [path for path, _ in toy.requests] == ["/data/b.txt"]
    datasets.fetch_raw("toy", tmp_path)
    assert len(toy.requests) == 1


def test_members_of_an_archive_are_checked_one_by_one(toy, tmp_path):
    windows = {f"Toy/{name}": data.replace(b"\n", b"\r\n") for name, data in FILES.items()}
    toy.serve("/toy.tgz", archive({**windows, "../../evil.txt": b"no"}))
    datasets.fetch_raw("toy", tmp_path, origins=(Origin(f"{toy.url}/", "toy.tgz"),))
    assert contents(tmp_path / "raw" / "Toy") == FILES
    assert not list(tmp_path.rglob("evil.txt"))


@pytest.mark.parametrize(
    "content",
    [b"no archive", archive({"a.txt": b"other"}), archive({})],
    ids=["no archive", "other content", "empty"],  # gzip writes the time into its bytes
)
def test_a_bad_archive_gives_way_to_the_next_origin(toy, tmp_path, content):
    toy.serve("/toy.tgz", content)
    origins = (Origin(f"{toy.url}/", "toy.tgz"), Origin(f"{toy.url}/data/"))
    datasets.fetch_raw("toy", tmp_path, origins=origins)
    assert contents(tmp_path / "raw" / "Toy") == FILES


def test_without_success_one_line_says_what_to_do_by_hand(toy, tmp_path):
    toy.routes.clear()
    with pytest.raises(DownloadError) as caught:
        datasets.fetch_raw("toy", tmp_path)
    text = str(caught.value)
    assert "\n" not in text
    assert "404" in text
    assert "a.txt, b.txt" in text
    assert str(tmp_path / "raw" / "Toy") in text
    assert "glnn data fetch toy" in text


@pytest.mark.dataset
def test_published_raw_files_become_the_npz(published, tmp_path):
    raw = published / "raw" / "TerrorAttack"
    if not raw.is_dir():
        pytest.skip("the raw files are not in GLNN_DATA")
    datasets.raw_to_npz("terrorattack", raw, tmp_path / "t.npz")
    from glnn.data.npz import read_node_npz

    for graph in ("default", "loc_org"):
        expected = read_node_npz(published / "terrorattack.npz", graph=graph)
        assert read_node_npz(tmp_path / "t.npz", graph=graph).equals(expected)


def test_an_archive_with_one_other_file_is_refused_by_its_name(toy, tmp_path):
    toy.serve("/toy.tgz", archive({"a.txt": FILES["a.txt"], "b.txt": b"other"}))
    with pytest.raises(DownloadError, match=r"must hold the published b\.txt, got another"):
        datasets.fetch_raw("toy", tmp_path, origins=(Origin(f"{toy.url}/", "toy.tgz"),))


# Downloading

CONTENT = bytes(range(256)) * 2000
DIGEST = hashlib.sha256(CONTENT).hexdigest()


def fetch(server, target, path="/file", **options):
    options = {"sha256": DIGEST, "timeout": 5, "attempts": 1, **options}
    return download(server.url + path, target, **options)


def test_a_file_comes_whole_with_its_progress(server, tmp_path):
    server.serve("/file", CONTENT)
    seen = []
    target = tmp_path / "deep" / "folder" / "file"
    fetch(server, target, progress=lambda done, total: seen.append((done, total)))
    assert target.read_bytes() == CONTENT
    assert seen[-1] == (len(CONTENT), len(CONTENT))
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
    fetch(server, tmp_path / "file", attempts=2)
    assert (tmp_path / "file").read_bytes() == CONTENT
    assert len(server.requests) == 2


def test_a_connection_that_is_always_cut_is_given_up_and_nothing_stays(server, tmp_path):
    cut_until(server, 9)
    with pytest.raises(DownloadError) as caught:
        fetch(server, tmp_path / "file", attempts=2)
    assert "\n" not in str(caught.value)
    assert len(server.requests) == 2
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_there_and_right_is_not_asked_for(server, tmp_path):
    (tmp_path / "file").write_bytes(CONTENT)
    fetch(server, tmp_path / "file")
    assert server.requests == []


def test_a_folder_that_cannot_be_made_is_one_clear_line(server, tmp_path):
    (tmp_path / "taken").write_text("a file")
    with pytest.raises(DownloadError, match="must be writable"):
        fetch(server, tmp_path / "taken" / "file")


def test_redirects_are_followed(server, tmp_path):
    def move(request):
        request.send_response(302)
        request.send_header("Location", "/file")
        request.end_headers()

    server.routes["/old"] = move
    server.serve("/file", CONTENT)
    assert file_sha256(fetch(server, tmp_path / "file", "/old")) == DIGEST


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


def test_a_file_that_is_not_there_is_one_clear_line(server, tmp_path):
    with pytest.raises(DownloadError, match="answered 404 Not Found"):
        fetch(server, tmp_path / "none", "/none")
    assert list(tmp_path.iterdir()) == []


def test_a_server_that_says_nothing_is_given_up(server, tmp_path):
    server.routes["/file"] = lambda request: time.sleep(1)
    with pytest.raises(DownloadError, match="too slowly"):
        fetch(server, tmp_path / "file", timeout=0.2)


@pytest.mark.parametrize("announce", [True, False])
def test_a_file_beyond_the_limit_is_refused(server, tmp_path, announce):
    def answer(request):
        request.send_response(200)
        if announce:
            request.send_header("Content-Length", str(len(CONTENT)))
        request.end_headers()
        request.wfile.write(CONTENT)

    server.routes["/file"] = answer
    with pytest.raises(DownloadError, match="at most 1,000 bytes"):
        fetch(server, tmp_path / "file", max_bytes=1000)


def test_without_a_server_the_reason_is_told(tmp_path):
    with socket.socket() as taken:  # bound, not listening: nobody answers there
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/file"
        with pytest.raises(DownloadError, match="cannot be reached"):
            download(url, tmp_path / "file", sha256=DIGEST, timeout=2, attempts=1)


def test_a_file_of_unknown_length_is_counted_as_it_comes():
    seen = []
    watch = _ProgressBar("u", 100, lambda done, total: seen.append((done, total)))
    for _ in range(2):
        watch.update(40)
    assert seen == [(40, None), (80, None)]
    with pytest.raises(DownloadError, match=r"^u must be at most 100 bytes, got more"):
        watch.update(40)
