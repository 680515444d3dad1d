import hashlib
import io
import tarfile
from types import MappingProxyType

import pytest

from glnn.data import fetch
from glnn.data.origins import Origin, RawFiles
from glnn.exceptions import DownloadError

FILES = {"a.txt": b"first\nsecond\n", "b.txt": b"more"}


@pytest.fixture
def toy(monkeypatch, server):
    """A data set of two small files at the local server."""
    digests = {name: hashlib.sha256(content).hexdigest() for name, content in FILES.items()}
    raw = RawFiles("Toy", MappingProxyType(digests), (Origin(f"{server.url}/data/"),))
    monkeypatch.setitem(fetch.RAW_FILES, "toy", raw)
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
    assert fetch.fetch_raw("toy", tmp_path) == tmp_path / "raw" / "Toy"
    assert contents(tmp_path / "raw" / "Toy") == FILES


def test_files_that_are_there_are_not_asked_for_again(toy, tmp_path):
    folder = tmp_path / "raw" / "Toy"
    folder.mkdir(parents=True)
    (folder / "a.txt").write_bytes(FILES["a.txt"])
    (folder / "b.txt").write_bytes(b"damaged")
    fetch.fetch_raw("toy", tmp_path)
    assert [path for path, _ in toy.requests] == ["/data/b.txt"]
    fetch.fetch_raw("toy", tmp_path)
    assert len(toy.requests) == 1


def test_members_of_an_archive_are_checked_one_by_one(toy, tmp_path):
    windows = {f"Toy/{name}": data.replace(b"\n", b"\r\n") for name, data in FILES.items()}
    toy.serve("/toy.tgz", archive({**windows, "../../evil.txt": b"no"}))
    fetch.fetch_raw("toy", tmp_path, origins=(Origin(f"{toy.url}/", "toy.tgz"),))
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
    fetch.fetch_raw("toy", tmp_path, origins=origins)
    assert contents(tmp_path / "raw" / "Toy") == FILES


def test_without_success_one_line_says_what_to_do_by_hand(toy, tmp_path):
    toy.routes.clear()
    with pytest.raises(DownloadError) as caught:
        fetch.fetch_raw("toy", tmp_path)
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
    fetch.raw_to_npz("terrorattack", raw, tmp_path / "t.npz")
    from glnn.data.node_npz import read_node_npz

    for graph in ("default", "loc_org"):
        expected = read_node_npz(published / "terrorattack.npz", graph=graph)
        assert read_node_npz(tmp_path / "t.npz", graph=graph).equals(expected)


def test_an_archive_with_one_other_file_is_refused_by_its_name(toy, tmp_path):
    toy.serve("/toy.tgz", archive({"a.txt": FILES["a.txt"], "b.txt": b"other"}))
    with pytest.raises(DownloadError, match=r"must hold the published b\.txt, got another"):
        fetch.fetch_raw("toy", tmp_path, origins=(Origin(f"{toy.url}/", "toy.tgz"),))
