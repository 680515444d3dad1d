import shutil
import time

import numpy as np
import pytest

from glnn.data import fetch_dataset, load_dataset, registry
from glnn.data.node_npz import write_node_npz
from glnn.data.origins import RAW_FILES, Origin
from glnn.exceptions import DataFormatError, DownloadError, InputError

FIVE = ["cora", "citeseer", "pubmed", "terrorattack", "terroristsrel"]


@pytest.mark.dataset
@pytest.mark.parametrize("name", FIVE)
def test_published_sets_load_quickly_with_their_counts(published, name):
    start = time.perf_counter()
    data = load_dataset(name)
    assert time.perf_counter() - start < 5
    info = registry.DATASETS[name]
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
    monkeypatch.setattr(registry, "cache_folder", lambda: tmp_path / "cache")
    with pytest.raises(InputError, match=r"glnn data fetch cora.*GLNN_DATA") as caught:
        load_dataset("cora")
    assert str(tmp_path / "named") in str(caught.value)
    assert str(tmp_path / "cache") in str(caught.value)


def test_folders_are_searched_in_order(tmp_path, monkeypatch):
    monkeypatch.setenv("GLNN_DATA", "named")
    assert [str(f) for f in registry.data_folders("given")] == ["given"]
    assert str(registry.data_folders()[0]) == "named"
    monkeypatch.delenv("GLNN_DATA")
    assert registry.data_folders() == (registry.cache_folder(),)


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

    monkeypatch.setattr(registry, "fetch_raw", fetched)
    monkeypatch.setattr(registry, "cache_folder", lambda: tmp_path / "cache")
    for folder in (None, tmp_path / "own"):
        with pytest.raises(DownloadError):
            fetch_dataset("cora", folder=folder)
    assert seen == [(tmp_path / "cache", 30.0), (tmp_path / "own", 30.0)]
