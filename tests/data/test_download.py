import hashlib
import socket
import time
from pathlib import Path

import pytest

from glnn.data.download import download, file_sha256
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


def cut_after(server, count):
    """Serve the whole, but close the connection after some bytes of every answer."""

    def answer(request):
        start = int((request.headers.get("Range") or "bytes=0-")[6:-1])
        request.send_response(206 if start else 200)
        request.send_header("Content-Length", str(len(CONTENT) - start))
        request.send_header("Content-Range", f"bytes {start}-{len(CONTENT) - 1}/{len(CONTENT)}")
        request.end_headers()
        request.wfile.write(CONTENT[start : start + count])

    server.routes["/file"] = answer


def test_a_cut_connection_is_taken_up_where_it_ended(server, tmp_path):
    cut_after(server, 200_000)
    fetch(server, tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == CONTENT
    assert [asked for _, asked in server.requests] == [None, "bytes=200000-", "bytes=400000-"]


def test_a_later_call_continues_what_an_earlier_one_left(server, tmp_path):
    cut_after(server, 100_000)
    with pytest.raises(DownloadError, match=r"cut off 2 times.*same command again"):
        fetch(server, tmp_path / "file", attempts=2)
    assert not (tmp_path / "file").exists()
    assert (tmp_path / "file.part").stat().st_size == 200_000
    server.serve("/file", CONTENT)
    fetch(server, tmp_path / "file")
    assert server.requests[-1] == ("/file", "bytes=200000-")
    assert (tmp_path / "file").read_bytes() == CONTENT


def test_a_server_that_cannot_resume_starts_again(server, tmp_path):
    (tmp_path / "file.part").write_bytes(b"old beginning")

    def whole(request):
        request.send_response(200)
        request.send_header("Content-Length", str(len(CONTENT)))
        request.end_headers()
        request.wfile.write(CONTENT)

    server.routes["/file"] = whole
    assert file_sha256(fetch(server, tmp_path / "file")) == DIGEST


def test_a_part_longer_than_the_file_is_thrown_away(server, tmp_path):
    (tmp_path / "file.part").write_bytes(CONTENT + b"more")
    server.serve("/file", CONTENT)
    plain = server.routes["/file"]

    def answer(request):
        if request.headers.get("Range"):
            request.send_error(416)
        else:
            plain(request)

    server.routes["/file"] = answer
    assert file_sha256(fetch(server, tmp_path / "file")) == DIGEST


def test_a_part_of_another_file_is_found_out_and_fetched_anew(server, tmp_path):
    (tmp_path / "file.part").write_bytes(b"x" * 1000)
    server.serve("/file", CONTENT)
    assert file_sha256(fetch(server, tmp_path / "file")) == DIGEST
    assert [asked for _, asked in server.requests] == ["bytes=1000-", None]


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
    server.routes["/file"] = lambda request: time.sleep(1.5)
    with pytest.raises(DownloadError, match="too slowly"):
        fetch(server, tmp_path / "file", timeout=0.2)


def test_a_server_that_drips_is_given_up_and_the_drops_are_kept(server, tmp_path):
    def drip(request):
        request.send_response(200)
        request.send_header("Content-Length", str(len(CONTENT)))
        request.end_headers()
        for place in range(60):
            request.wfile.write(CONTENT[place : place + 1])
            request.wfile.flush()
            time.sleep(0.02)

    server.routes["/file"] = drip
    with pytest.raises(DownloadError, match="too slowly"):
        fetch(server, tmp_path / "file", timeout=0.3)
    kept = (tmp_path / "file.part").read_bytes()
    assert kept
    assert CONTENT.startswith(kept)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs the device that is always full")
def test_a_full_disk_is_one_clear_line_and_leaves_nothing(server, tmp_path):
    server.serve("/file", CONTENT)
    (tmp_path / "file.part").symlink_to("/dev/full")
    with pytest.raises(DownloadError, match=r"No space left on device.*GLNN_DATA"):
        fetch(server, tmp_path / "file")
    assert list(tmp_path.iterdir()) == []


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
