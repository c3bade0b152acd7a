"""Sinks: a program and an HTTPS server, each as it should be and each way that it fails."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import ssl
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from b200kit.node.events import sinks
from b200kit.node.events.config import KEY, URL, EventPlan
from b200kit.node.events.sinks import Command, Webhook
from tests.unit.gateway.test_refusals import certificate

EVENT = {"id": "n01-1", "summary": "out"}


def told(sink: sinks.Sink) -> str | None:
    """What comes of telling it."""
    return asyncio.run(sink.tell(EVENT))


def test_a_command_gets_one_line_of_json(tmp_path: Path) -> None:
    assert told(Command(["/bin/sh", "-c", f"cat > {tmp_path}/heard"], 20)) is None
    assert json.loads((tmp_path / "heard").read_text()) == EVENT


def test_a_command_that_fails_says_why(capfd: pytest.CaptureFixture[str]) -> None:
    assert told(Command(["/bin/sh", "-c", "echo no relay >&2; exit 3"], 20)) == "/bin/sh exited 3"
    # As a unit's, what it says itself is in the journal.
    assert capfd.readouterr().err == "no relay\n"
    assert told(Command(["/no/such/program"], 20)) == "/no/such/program: No such file or directory"


def test_a_command_that_reads_nothing_takes_the_event() -> None:
    assert told(Command(["/bin/true"], 20)) is None


@pytest.mark.parametrize("begun", ["", "setsid -f "])
@pytest.mark.parametrize("hangs", [True, False])
def test_what_a_command_started_ends_with_it(
    hangs: bool, begun: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also in a session of its own; and what it leaves behind is no reason to wait."""
    kept, wait_for = tmp_path / "child", asyncio.wait_for

    async def once_begun(job: Any, within_s: float) -> Any:
        while not (kept.exists() and kept.read_text().endswith("\n")):
            await asyncio.sleep(0.01)
        return await wait_for(job, within_s)

    monkeypatch.setattr(asyncio, "wait_for", once_begun)
    child = f"{begun}sh -c 'echo $$ > {kept}; exec sleep 1000'"
    ends = "sleep 1000" if hangs else f"until [ -s {kept} ]; do sleep 0.01; done"
    other = subprocess.Popen(["sleep", "1000"])
    try:
        problem = told(Command(["/bin/sh", "-c", f"{child} & {ends}"], 0.5 if hangs else 600))
        assert ("was killed" in str(problem)) is hangs
        assert (problem is None) is not hangs
        assert not Path(f"/proc/{kept.read_text().strip()}").exists()
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()


@contextlib.contextmanager
def server(
    folder: Path, status: int = 204, name: str = "localhost", answer: bytes = b""
) -> Iterator[tuple[str, Any]]:
    """An HTTPS server in a thread, its *answer* instead of HTTP's: its URL, and the requests it
    has had.
    """
    had: list[tuple[str | None, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            had.append((self.headers["Authorization"], json.loads(body)))
            if answer:
                self.close_connection = bool(self.wfile.write(answer))
                return
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    (folder / "own.pem").write_bytes(certificate(folder, name))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "own.pem")
    listening = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    listening.socket = context.wrap_socket(listening.socket, server_side=True)
    thread = threading.Thread(target=listening.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"https://localhost:{listening.server_address[1]}/events", had
    finally:
        listening.shutdown()
        thread.join()
        listening.server_close()


def test_a_webhook_gets_the_event_and_the_key(tmp_path: Path) -> None:
    with server(tmp_path) as (url, had):
        assert told(Webhook(url, f"{tmp_path}/own.pem", 20, "a-key")) is None
    assert had == [("Bearer a-key", EVENT)]


def test_a_webhook_that_does_not_take_it(tmp_path: Path) -> None:
    with server(tmp_path, status=503) as (url, _):
        assert told(Webhook(url, f"{tmp_path}/own.pem", 20)) == "HTTP 503"
    problem = str(told(Webhook(url, f"{tmp_path}/own.pem", 20)))
    assert "cannot connect" in problem
    # The path may be what lets one in.
    assert "/events" not in problem
    assert "No such file" in str(told(Webhook(url, f"{tmp_path}/none.pem", 20)))


@pytest.mark.parametrize("name", ["localhost", "elsewhere"])
def test_a_certificate_must_be_of_the_authority_and_for_the_host(name: str, tmp_path: Path) -> None:
    with server(tmp_path, name=name) as (url, had):
        trusted = f"{tmp_path}/own.pem" if name == "elsewhere" else ""
        assert "certificate" in str(told(Webhook(url, trusted, 20, "a-key"))).lower()
    assert had == []


def test_what_is_no_http_is_not_repeated(tmp_path: Path) -> None:
    """It may be our own request."""
    said = b"NOT HTTP Bearer a-key\r\n\r\n"
    for head in (b"", b"HTTP/1.1 300 x\r\nTransfer-Encoding: chunked\r\n\r\n"):
        with server(tmp_path, answer=head + said) as (url, _):
            problem = told(Webhook(url, f"{tmp_path}/own.pem", 20, "a-key"))
        assert problem
        assert "a-key" not in problem


def test_a_webhook_that_says_nothing_is_left_after_the_deadline(tmp_path: Path) -> None:
    with server(tmp_path) as (url, _):
        pass
    import socket

    with socket.create_server(("127.0.0.1", 0)) as mute:
        url = f"https://localhost:{mute.getsockname()[1]}/"
        assert told(Webhook(url, "", 0.2)) is not None


def test_url_and_key_are_the_units_credentials(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = EventPlan("n01", 200, 10.0, ("/bin/true",), True, "")
    monkeypatch.delenv("CREDENTIALS_DIRECTORY", raising=False)
    with pytest.raises(OSError, match="credentials"):
        sinks.sinks(plan)
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", os.fspath(tmp_path))
    (tmp_path / URL).write_text("https://h/a-path")
    command, hook = sinks.sinks(plan)
    assert (command.name, hook) == ("command", Webhook("https://h/a-path", "", 10.0))
    (tmp_path / KEY).write_text("a-key\n")
    assert sinks.sinks(plan)[1] == Webhook("https://h/a-path", "", 10.0, "a-key")
