"""The server answers its own page only: who asks, what is asked and how much is checked."""

import contextlib
import http.client
import json
import os
import random
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import time

import pytest

from glnn.exceptions import InputError, MissingDependencyError
from glnn.studio.server import MAX_BODY, StudioServer, serve

TOKEN = "x-glnn-token"


@pytest.fixture(scope="module")
def server(make_session, start_server):
    return start_server(make_session())


@pytest.fixture
def session(server):
    made = server._session
    listeners = made.listeners
    made.__init__()
    made.listeners = listeners
    return made


@pytest.fixture
def ask(session, server):
    """Return a function that sends a request which is right but for what the caller changes."""
    usual = {"Host": f"127.0.0.1:{server.port}", "Origin": f"http://127.0.0.1:{server.port}"}
    usual |= {TOKEN: server.token, "Content-Type": "application/json"}

    def asked(method, path, body=None, **changes):
        named = {name.replace("_", "-"): value for name, value in changes.items()}
        headers = {k: v for k, v in (usual | named).items() if v is not None}
        caller = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
        with contextlib.closing(caller):
            return send(caller, method, path, body, headers)

    def send(caller, method, path, body, headers):
        caller.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
        data = json.dumps(body).encode() if isinstance(body, dict) else body
        if isinstance(data, bytes):
            headers.setdefault("Content-Length", str(len(data)))
        for name, value in headers.items():
            caller.putheader(name, value)
        caller.endheaders(data, encode_chunked="Transfer-Encoding" in headers)
        answer = caller.getresponse()
        answer.text = answer.read().decode()
        return answer

    asked.server = server
    return asked


def is_refused(call, status):
    """Whether a request gets this status or that of bad HTTP, or its connection is closed.

    A server that closes while a body is on its way may reset the connection before its answer is
    read.
    """
    try:
        return call().status in (status, 400)
    except OSError:
        return True


LABEL = {"act": "label", "id": "row 3", "value": "oak"}


def test_an_act_is_answered_with_the_state_after_it(ask, session):
    answer = ask("POST", "/act", LABEL)
    assert answer.status == 200
    assert json.loads(answer.text)["changes"] == [
        {"id": "row 3", "status": "labelled", "label": "oak"}
    ]
    assert session.now.labels == {"row 3": "oak"}
    assert ask("GET", "/labels.csv").text == "id,label\nrow 3,oak\n"
    assert ask("GET", "/map").text == session.map_data()


def test_the_page_has_its_policy_and_no_cors(ask):
    answer = ask("GET", f"/?token={ask.server.token}", X_Glnn_Token=None, Origin=None)
    assert answer.status == 200
    assert answer.text.startswith("<!DOCTYPE html>")
    policy = answer.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "http" not in policy
    assert not [name for name in answer.headers if name.lower().startswith("access-control")]
    expected = {"X-Frame-Options": "DENY", "Referrer-Policy": "no-referrer"}
    expected |= {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
    assert {name: answer.headers[name] for name in expected} == expected
    assert ask.server.token not in answer.text


@pytest.mark.parametrize("host", ["evil.example:{}", "127.0.0.1", "localhost:1", "", None])
def test_a_foreign_host_is_refused_even_if_the_origin_agrees(ask, session, host):
    """A name of another site that resolves to this computer has both of them wrong."""
    host = host and host.format(ask.server.port)
    assert is_refused(lambda: ask("POST", "/act", LABEL, Host=host, Origin=f"http://{host}"), 403)
    assert session.acts == []
    for path in (f"/?token={ask.server.token}", "/map"):
        answer = ask("GET", path, Host=host, Origin=None)
        assert answer.status in (400, 403)
        assert "<html" not in answer.text


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://localhost", "", None])
def test_a_foreign_or_missing_origin_is_refused(ask, session, origin):
    assert ask("POST", "/act", LABEL, Origin=origin).status == 403
    assert session.acts == []


def test_the_origin_is_that_of_the_host(ask, session):
    port = ask.server.port
    mixed = {"Host": f"localhost:{port}", "Origin": f"http://127.0.0.1:{port}"}
    assert ask("POST", "/act", LABEL, **mixed).status == 403
    mixed["Origin"] = f"http://localhost:{port}"
    assert ask("POST", "/act", LABEL, **mixed).status == 200
    assert ask("GET", "/map", Origin="https://evil.example").status == 403


@pytest.mark.parametrize("token", [None, "", "wrong", "x" * 43, "\xff"])
@pytest.mark.parametrize("path", ["/act", "/map", "/labels.csv", "/news", "/nothing"])
def test_without_the_token_nothing_is_answered(ask, session, path, token):
    method = "POST" if path == "/act" else "GET"
    answer = ask(method, path, LABEL if path == "/act" else None, **{TOKEN: token})
    assert answer.status == 403
    assert list(json.loads(answer.text)) == ["error"]
    assert session.acts == []


@pytest.mark.parametrize("query", ["", "?token=", "?token=wrong", "?token={}x", "?other={}"])
def test_the_page_needs_the_token_in_its_address(ask, query):
    answer = ask("GET", "/" + query.format(ask.server.token))
    assert answer.status == 403
    assert "<html" not in answer.text


def test_a_header_that_decides_comes_once(ask):
    lines = [
        "GET /map HTTP/1.1", f"Host: 127.0.0.1:{ask.server.port}", f"{TOKEN}: wrong",
        f"{TOKEN}: {ask.server.token}", "Connection: close", "", "",
    ]  # fmt: skip
    with socket.create_connection(("127.0.0.1", ask.server.port), 10) as caller:
        caller.sendall("\r\n".join(lines).encode())
        assert b" 400 " in caller.recv(4096).splitlines()[0]


TRICKS = (
    "/../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "//etc/passwd", "/..%2f..%2fetc%2fpasswd",
    "/templates/studio.js", "/map/../act", "/map/", "/map%00", "/MAP", "/act.json", "/favicon.ico",
    "/static/..\\..\\secret", "http://evil.example/map",
)  # fmt: skip


@pytest.mark.parametrize("path", TRICKS)
def test_other_paths_lead_nowhere(ask, path):
    answer = ask("GET", path)
    assert answer.status == 404
    assert "root:" not in answer.text


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "OPTIONS", "TRACE"])
def test_other_methods_do_nothing(ask, session, method):
    assert ask(method, "/act", LABEL).status == 405
    assert session.acts == []


def test_an_oversized_body_is_refused_by_its_length(ask, session):
    body = b'{"act": "' + b"x" * MAX_BODY + b'"}'
    assert is_refused(lambda: ask("POST", "/act", body), 413)
    assert session.acts == []
    assert ask("POST", "/act", body[: MAX_BODY // 2] + b'"}').status == 422


def test_an_oversized_body_is_refused_while_it_arrives(ask, session):
    """A body in chunks names no length; what counts is what came, and reading ends there."""
    sent = []

    def chunks():
        for _ in range(10_000):
            sent.append(1)
            yield b"x" * 4096

    assert is_refused(lambda: ask("POST", "/act", chunks(), Transfer_Encoding="chunked"), 413)
    assert len(sent) < 10_000
    assert session.acts == []
    assert ask("POST", "/act", iter([json.dumps(LABEL).encode()]), Transfer_Encoding="chunked")
    assert session.now.labels == {"row 3": "oak"}


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[1]", b'"act"', b"\xff", b"[" * 60_000, b'{"act": NaN}', b"1" * 9999]
)
def test_what_is_no_json_object_is_refused(ask, session, body):
    assert ask("POST", "/act", body).status == 400
    assert session.acts == []


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", None])
def test_a_form_of_another_site_is_refused_by_its_kind(ask, session, kind):
    assert ask("POST", "/act", LABEL, Content_Type=kind).status == 415
    assert session.acts == []


def test_what_the_session_refuses_is_one_line(ask, session, monkeypatch):
    answer = ask("POST", "/act", {"act": "label", "id": "<script>", "value": "oak"})
    assert answer.status == 422
    assert answer.headers["Content-Type"] == "application/json"
    assert json.loads(answer.text)["error"].count("\n") == 0

    def fail(_):
        raise RuntimeError("out of luck")

    monkeypatch.setattr(session, "act", fail)
    answer = ask("POST", "/act", LABEL)
    assert answer.status == 500
    assert json.loads(answer.text) == {"error": "the server failed: RuntimeError: out of luck"}


def test_the_server_answers_while_an_act_takes_long(ask, session, monkeypatch):
    release, begun = threading.Event(), threading.Event()

    def slow(message):
        begun.set()
        assert release.wait(10)
        return {}

    monkeypatch.setattr(session, "act", slow)
    thread = threading.Thread(target=ask, args=("POST", "/act", LABEL))
    thread.start()
    assert begun.wait(10)
    assert ask("GET", "/labels.csv").status == 200
    release.set()
    thread.join(10)


def test_news_are_sent_when_something_has_changed(ask, session):
    known = json.loads(ask("GET", "/news?after=").text)["news"]
    heard = []
    thread = threading.Thread(
        target=lambda: heard.append(json.loads(ask("GET", f"/news?after={known}").text)["news"])
    )
    thread.start()
    time.sleep(0.3)
    assert heard == []
    session.notify()
    thread.join(5)
    assert heard == [known + 1]


def test_it_is_bound_to_this_computer_only(ask):
    assert ask.server._listener.getsockname() == ("127.0.0.1", ask.server.port)


def test_a_port_in_use_is_one_line(ask, session):
    for port in (ask.server.port, 70_000):
        with pytest.raises(InputError, match=f"port must be .* got {port}") as caught:
            serve(session, port, open_browser=False)
        assert "\n" not in str(caught.value)


def test_a_missing_package_is_one_line_that_names_the_extra(session, monkeypatch):
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    with pytest.raises(MissingDependencyError, match=r"glnn\[studio\]"):
        StudioServer(session)


def test_two_servers_have_different_tokens(session):
    first, second = StudioServer(session), StudioServer(session)
    try:
        assert first.token != second.token
        assert len(first.token) >= 43
    finally:
        first._listener.close()
        second._listener.close()


@pytest.mark.skipif(os.name != "posix", reason="sends a signal")
def test_an_interrupt_ends_it_cleanly_even_while_a_page_waits():
    code = """
    from glnn.studio.server import serve
    class Session:
        def listen(self, callback):
            return lambda: print("forgotten", flush=True)
    serve(Session(), open_browser=False, say=lambda line: print(line, flush=True))
    print("ended", flush=True)
    """
    args = [sys.executable, "-c", textwrap.dedent(code)]
    process = subprocess.Popen(args, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    url = process.stdout.readline().split()[-1]
    port, token = int(url.split(":")[2].split("/")[0]), url.partition("token=")[2]
    caller = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    caller.request("GET", "/news?after=0", headers={TOKEN: token})
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=12)
    caller.close()
    assert err == ""
    assert process.returncode == 0
    assert out.splitlines()[-2:] == ["forgotten", "ended"]


@pytest.mark.skipif(os.name != "posix", reason="sends a signal")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_closes_the_session_and_one_line_says_where_the_labels_are(number, people):
    table, folder = people(40), people(40).parent / "my session"
    args = ["studio", table, "--out", folder, "--no-browser", "--set", "n_epochs=100000"]
    command = [sys.executable, "-m", "glnn", *map(str, args)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    url = next(line for line in process.stdout if "token=" in line).split()[-1]
    port, token = int(url.split(":")[2].split("/")[0]), url.partition("token=")[2]
    headers = {TOKEN: token, "Content-Type": "application/json"}
    caller = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    for row, value in ("p0", "oak"), ("p1", "ash"):
        message = json.dumps({"act": "label", "id": row, "value": value})
        caller.request("POST", "/act", message, headers | {"Origin": f"http://127.0.0.1:{port}"})
        assert caller.getresponse().read()
    caller.close()
    process.send_signal(number)  # while a fit runs
    out, err = process.communicate(timeout=30)
    assert (process.returncode, err) == (0, "")
    assert out.splitlines()[-1] == f"2 labels in {folder}; to go on: glnn studio '{folder}'"
    assert not (folder.parent / ".my session.glnn-lock").exists()


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="sends a signal")
def test_a_killed_server_loses_no_label_that_it_has_acknowledged(tmp_path):
    n_rows, rng = 60, random.Random(0)
    lines = [f"r{k},{rng.gauss(3 * (k % 2), 1):.4f},{rng.gauss(0, 1):.4f}" for k in range(n_rows)]
    table, folder = tmp_path / "t.csv", tmp_path / "session"
    table.write_text("\n".join(["id,a,b", *lines]) + "\n", encoding="utf-8")
    given, sent = {}, ("", "")  # labels that were acknowledged, and the last one that was sent
    for round_number in range(21):
        name = table if round_number == 0 else folder
        args = ["studio", name, *(["--out", folder] if round_number == 0 else []), "--no-browser"]
        process = subprocess.Popen(
            [sys.executable, "-m", "glnn", *map(str, args), "--set", "n_epochs=5"],
            stdout=subprocess.PIPE,
            text=True,
        )
        url = next(line for line in process.stdout if "token=" in line).split()[-1]
        port, token = int(url.split(":")[2].split("/")[0]), url.partition("token=")[2]
        headers = {TOKEN: token, "Content-Type": "application/json"}
        headers |= {"Origin": f"http://127.0.0.1:{port}"}
        caller = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        caller.request("GET", "/labels.csv", headers=headers)
        kept = dict(line.split(",") for line in caller.getresponse().read().decode().split()[1:])
        assert {row: kept.get(row) for row in given if row != sent[0]}.items() <= given.items()
        assert not given or kept.get(sent[0]) in (given.get(sent[0]), sent[1])
        given = kept
        if round_number == 20:
            assert len(kept) >= 20
        killer = threading.Timer(rng.uniform(0.05, 0.6), process.kill)
        killer.start()
        with contextlib.suppress(OSError, http.client.HTTPException):
            while True:
                sent = row, value = f"r{rng.randrange(n_rows)}", rng.choice(["ash", "oak"])
                message = {"act": "label", "id": row, "value": value}
                caller.request("POST", "/act", json.dumps(message), headers)
                answer = caller.getresponse()
                answer.read()
                assert answer.status == 200
                given[row] = value
        killer.join()
        caller.close()
        process.wait(10)
        process.stdout.close()
