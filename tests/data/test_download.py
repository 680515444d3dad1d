import hashlib
import socket
import time

import pytest

from glnn.data.download import _Watch, download, file_sha256
from glnn.exceptions import DownloadError

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
    watch = _Watch("u", 100, lambda done, total: seen.append((done, total)))
    for _ in range(2):
        watch.update(40)
    assert seen == [(40, None), (80, None)]
    with pytest.raises(DownloadError, match=r"^u must be at most 100 bytes, got more"):
        watch.update(40)
