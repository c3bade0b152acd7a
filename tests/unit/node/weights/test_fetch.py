"""A model is taken from real HTTP servers, every byte proven; anything else is refused by name."""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from b200kit.node.weights import download, fetch
from b200kit.node.weights.manifest import STAMP, parse
from b200kit.node.weights.progress import Progress
from b200kit.node.weights.source import FileSource
from tests.messages import PORT, TOOK, assert_message, lines_with
from tests.subtests import in_subtests

ROOT = Path(__file__).resolve().parents[4]
TOKEN = "canary-model-token"
FILES = {"config.json": b"{}", "weights/model-1.bin": b"w" * 3000, "weights/empty": b""}


@dataclass
class Site:
    """A model store, and what was asked of it."""

    url: str = ""
    files: dict[str, bytes] = field(default_factory=dict)
    redirects: dict[str, str] = field(default_factory=dict)
    asked: list[tuple[str, str | None]] = field(default_factory=list)
    # How many bytes fewer than announced come of a path, as from a server that died.
    cut: dict[str, int] = field(default_factory=dict)
    # Whether a request for the rest of a file gets the rest.
    ranges: bool = True
    # Answers given instead, one a request, until there are no more of them.
    errors: dict[str, list[int]] = field(default_factory=dict)
    # Bytes of a path that are sent before the server falls silent, until `let_go` is set.
    silent_after: dict[str, int] = field(default_factory=dict)
    let_go: threading.Event = field(default_factory=threading.Event)
    began: list[tuple[str, int]] = field(default_factory=list)

    def publish(self, files: dict[str, bytes], **lies: str) -> str:
        """Serve a model; returns its revision. *lies* are wrong hashes by file name."""
        listed = [
            {
                "path": path,
                "size": len(content),
                "sha256": lies.get(path, hashlib.sha256(content).hexdigest()),
            }
            for path, content in files.items()
        ]
        manifest = json.dumps({"files": listed}).encode()
        self.files = {f"/{path}": content for path, content in files.items()}
        self.files["/manifest.json"] = manifest
        return hashlib.sha256(manifest).hexdigest()

    @property
    def paths(self) -> list[str]:
        """What was asked for, in order."""
        return [path for path, _ in self.asked]


@pytest.fixture
def new_site() -> Iterator[Callable[[], Site]]:
    """Starts stores on loopback ports of their own."""
    servers: list[ThreadingHTTPServer] = []
    sites: list[Site] = []

    def start() -> Site:
        site = Site()
        sites.append(site)
        server = ThreadingHTTPServer(("127.0.0.1", 0), handler_of(site))
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        servers.append(server)
        site.url = f"http://127.0.0.1:{server.server_address[1]}"
        return site

    yield start
    for site in sites:
        site.let_go.set()
    for server in servers:
        server.shutdown()
        server.server_close()


def handler_of(site: Site) -> type[BaseHTTPRequestHandler]:
    """An HTTP handler that serves *site*."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            site.asked.append((self.path, self.headers.get("Authorization")))
            if self.path in site.redirects:
                self.send_response(302)
                self.send_header("Location", site.redirects[self.path])
                self.end_headers()
                return
            if site.errors.get(self.path):
                self.send_error(site.errors[self.path].pop(0))
                return
            content = site.files.get(self.path)
            if content is None:
                self.send_error(404)
                return
            self._answer(content)

        def _answer(self, content: bytes) -> None:
            asked = self.headers.get("Range", "") if site.ranges else ""
            first = int(asked.removeprefix("bytes=").rstrip("-") or 0)
            site.began.append((self.path, first))
            self.send_response(206 if first else 200)
            if first:
                whole = f"bytes {first}-{len(content) - 1}/{len(content)}"
                self.send_header("Content-Range", whole)
            self.send_header("Content-Length", str(len(content) - first))
            self.end_headers()
            end = len(content) - site.cut.get(self.path, 0)
            stop = site.silent_after.get(self.path)
            if stop is not None and first <= stop:
                self.wfile.write(content[first:stop])
                self.wfile.flush()
                site.let_go.wait(300)
                return
            self.wfile.write(content[first:end])

        def log_message(self, format: str, *args: Any) -> None:
            """Say nothing."""

    return Handler


@pytest.fixture
def site(new_site: Callable[[], Site]) -> Site:
    """One store."""
    return new_site()


def spoil(path: Path, content: bytes) -> None:
    """Write into a read-only file, as whoever is root could."""
    path.chmod(0o644)
    path.write_bytes(content)


@dataclass(frozen=True)
class Done:
    """How a fetch ended."""

    code: int
    said: str


@pytest.fixture
def bring(tmp_path: Path, site: Site, capsys: pytest.CaptureFixture[str]) -> Callable[..., Done]:
    """Fetches a revision from the store to tmp_path/model."""

    def run(revision: str, *more: str, url: str = "") -> Done:
        place = ["--url", url or site.url, "--dest", str(tmp_path / "model")]
        patience = ["--timeout", "10", "--pause", "0"]
        code = fetch.main([*place, "--revision", revision, *patience, *more])
        return Done(code, "".join(capsys.readouterr()))

    return run


@pytest.fixture
def token(tmp_path: Path) -> tuple[str, str]:
    """The arguments that name a token file."""
    (tmp_path / "token").write_text(TOKEN + "\n")
    return "--token-file", str(tmp_path / "token")


Bring = Callable[..., Done]


def test_whole_model_arrives_and_is_stamped(tmp_path: Path, site: Site, bring: Bring) -> None:
    revision = site.publish(FILES)
    done = bring(revision)
    assert done.code == 0
    assert done.said.endswith("\n3 files\n")
    got = {path: (tmp_path / "model" / path).read_bytes() for path in FILES}
    assert got == FILES
    assert (tmp_path / "model" / STAMP).read_text() == revision


@pytest.mark.parametrize("digits", [12, 40, 63])
def test_first_digits_pin_no_manifest(site: Site, bring: Bring, digits: int) -> None:
    assert bring(site.publish(FILES)[:digits]).code == fetch.REFUSED


def test_manifest_of_another_revision_is_refused(tmp_path: Path, site: Site, bring: Bring) -> None:
    site.publish(FILES)
    done = bring("0123456789abcdef" * 4)
    assert done.code == fetch.REFUSED
    assert_message(done.said, URL=site.url)
    assert site.paths == ["/manifest.json"]
    assert not (tmp_path / "model").exists()


def test_file_that_is_not_what_the_manifest_names_is_refused(
    tmp_path: Path, site: Site, bring: Bring
) -> None:
    revision = site.publish(FILES)
    site.files["/weights/model-1.bin"] = b"evil" * 750
    done = bring(revision)
    assert done.code == fetch.REFUSED
    assert_message(*lines_with(done.said, "not fetched"), URL=site.url)
    left = {path.name for path in (tmp_path / "model").rglob("*") if path.is_file()}
    assert left == {"config.json", "empty", ".verified.json", ".lock.partial"}


def test_answer_cut_short_is_refused(tmp_path: Path, site: Site, bring: Bring) -> None:
    revision = site.publish({"model.bin": b"w" * 5000})
    site.cut["/model.bin"] = 1000
    done = bring(revision, "--tries", "2")
    assert done.code == 1
    assert_message(done.said, URL=site.url)
    assert not (tmp_path / "model" / STAMP).exists()
    assert not (tmp_path / "model" / "model.bin").exists()


def test_interrupted_fetch_goes_on_with_what_is_right(
    tmp_path: Path, site: Site, bring: Bring
) -> None:
    revision = site.publish(FILES)
    weights = site.files.pop("/weights/model-1.bin")
    assert bring(revision).code == fetch.REFUSED
    site.files["/weights/model-1.bin"] = weights
    site.asked.clear()
    assert bring(revision).code == 0
    assert site.paths == ["/manifest.json", "/weights/model-1.bin"]


def test_file_that_rotted_on_the_disk_is_fetched_again(
    tmp_path: Path, site: Site, bring: Bring
) -> None:
    revision = site.publish(FILES)
    bring(revision)
    spoil(tmp_path / "model" / "config.json", b"[]")
    site.asked.clear()
    assert bring(revision).code == 0
    assert site.paths == ["/config.json"]
    assert (tmp_path / "model" / "config.json").read_bytes() == b"{}"


def test_model_that_rotted_is_stamped_no_more_where_it_cannot_be_fetched(
    tmp_path: Path, site: Site, bring: Bring
) -> None:
    revision = site.publish(FILES)
    bring(revision)
    spoil(tmp_path / "model" / "config.json", b"[]")
    del site.files["/config.json"]
    assert bring(revision).code == fetch.REFUSED
    assert not (tmp_path / "model" / STAMP).exists()


def test_model_is_readable_by_the_server(tmp_path: Path, site: Site, bring: Bring) -> None:
    bring(site.publish(FILES))
    model = tmp_path / "model"
    assert {p.stat().st_mode & 0o777 for p in model.rglob("*") if p.is_file()} == {0o444, 0o644}
    assert (model / "weights" / "model-1.bin").stat().st_mode & 0o777 == 0o444
    assert {p.stat().st_mode & 0o777 for p in (model, model / "weights")} == {0o555}


@pytest.mark.parametrize("path", ["../outside", "/etc/outside", "a/../../outside"])
def test_manifest_cannot_write_outside_the_model(
    tmp_path: Path, site: Site, bring: Bring, path: str
) -> None:
    done = bring(site.publish({path: b"x"}))
    assert done.code == fetch.REFUSED
    assert_message(done.said, URL=site.url)
    assert site.paths == ["/manifest.json"]
    assert not list(tmp_path.rglob("outside"))


def test_no_disk_space_is_told_before_the_first_byte(
    tmp_path: Path, site: Site, bring: Bring, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage(tmp_path)._replace(free=3001)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    revision = site.publish(FILES)
    done = bring(revision)
    assert done.code == fetch.REFUSED
    assert_message(done.said, URL=site.url)
    assert site.paths == ["/manifest.json"]


def test_what_is_there_already_needs_no_space(
    tmp_path: Path, site: Site, bring: Bring, monkeypatch: pytest.MonkeyPatch
) -> None:
    revision = site.publish(FILES)
    bring(revision)
    usage = shutil.disk_usage(tmp_path)._replace(free=0)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    assert bring(revision).code == 0


def test_token_is_sent_with_every_request_and_never_printed(
    site: Site, bring: Bring, token: tuple[str, str]
) -> None:
    revision = site.publish(FILES)
    del site.files["/weights/empty"]
    done = bring(revision, *token)
    assert done.code == fetch.REFUSED
    assert {sent for _, sent in site.asked} == {f"Bearer {TOKEN}"}
    assert "HTTP 404" in done.said
    assert TOKEN not in done.said


def test_token_does_not_follow_a_redirect(
    site: Site, new_site: Callable[[], Site], bring: Bring, token: tuple[str, str]
) -> None:
    other = new_site()
    revision = site.publish(FILES)
    other.publish(FILES)
    site.redirects["/config.json"] = f"{other.url}/config.json"
    assert bring(revision, *token).code == 0
    assert other.asked == [("/config.json", None)]


def test_no_token_means_no_header(site: Site, bring: Bring) -> None:
    bring(site.publish(FILES))
    assert {sent for _, sent in site.asked} == {None}


def test_store_that_cannot_be_reached_is_one_line(bring: Bring) -> None:
    done = bring("0" * 12, url="http://127.0.0.1:1/model")
    assert done.code == 1
    assert done.said.startswith("model not fetched: http://127.0.0.1:1/model/manifest.json: ")
    assert "Connection refused" in done.said
    assert done.said.count("\n") == 1


def test_token_file_that_is_not_there_is_one_line(bring: Bring, tmp_path: Path) -> None:
    done = bring("0" * 12, "--token-file", str(tmp_path / "none"))
    assert done.code == 1
    assert done.said.count("\n") == 1


@pytest.mark.parametrize(
    "manifest",
    [b"", b"{", b"[]", b'{"files": 3}', b'{"files": [{"path": "x"}]}', b'{"files": ["x"]}'],
)
def test_manifest_that_is_none_is_one_line(site: Site, bring: Bring, manifest: bytes) -> None:
    site.files["/manifest.json"] = manifest
    done = bring(hashlib.sha256(manifest).hexdigest())
    assert done.code == fetch.REFUSED
    assert done.said.startswith("model not fetched: ")
    assert done.said.count("\n") == 1


def test_manifest_cut_short_is_one_line(site: Site, bring: Bring) -> None:
    revision = site.publish(FILES)
    site.cut["/manifest.json"] = 10
    done = bring(revision, "--tries", "2")
    assert done.code == 1
    assert done.said.startswith("model not fetched: ")
    assert done.said.count("\n") == 1


BIG = {"config.json": b"{}", "model-1.bin": bytes(range(256)) * 4096}


def spawn(site: Site, dest: Path, revision: str) -> subprocess.Popen[bytes]:
    """A fetch in a process of its own."""
    words = ["--url", site.url, "--dest", str(dest), "--revision", revision, "--parallel", "1"]
    code = "import sys; from b200kit.node.cli import main; sys.exit(main(sys.argv[1:]))"
    return subprocess.Popen(
        [sys.executable, "-c", code, "fetch", *words], cwd=ROOT, stdout=subprocess.DEVNULL
    )


def until_size(path: Path, size: int) -> None:
    """Return when a file has so many bytes."""
    end = time.monotonic() + 300
    while not path.exists() or path.stat().st_size < size:
        assert time.monotonic() < end, f"{path} did not get {size} bytes"
        time.sleep(0.01)


def test_killed_fetch_goes_on_at_the_byte_where_it_was(
    tmp_path: Path, site: Site, bring: Bring
) -> None:
    revision = site.publish(BIG)
    half = len(BIG["model-1.bin"]) // 2
    site.silent_after["/model-1.bin"] = half
    with spawn(site, tmp_path / "model", revision) as process:
        until_size(tmp_path / "model" / "model-1.bin.partial", half)
        process.kill()
    assert process.returncode == -signal.SIGKILL
    site.let_go.set()
    site.silent_after.clear()
    site.began.clear()
    assert bring(revision).code == 0
    assert site.began == [("/manifest.json", 0), ("/model-1.bin", half)]
    assert (tmp_path / "model" / "model-1.bin").read_bytes() == BIG["model-1.bin"]


def test_store_that_cannot_send_the_rest_sends_it_all(
    tmp_path: Path, site: Site, bring: Bring
) -> None:
    revision = site.publish(BIG)
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "model-1.bin.partial").write_bytes(BIG["model-1.bin"][:1000])
    site.ranges = False
    assert bring(revision).code == 0
    assert (tmp_path / "model" / "model-1.bin").read_bytes() == BIG["model-1.bin"]


def test_answer_that_breaks_off_is_asked_for_the_rest(
    tmp_path: Path, site: Site, bring: Bring
) -> None:
    revision = site.publish(BIG)
    site.cut["/model-1.bin"] = 1000
    # Each try ends 1000 bytes before the end that it was given, and every byte that came is kept.
    done = bring(revision, "--tries", "2")
    assert done.code == 1
    size = len(BIG["model-1.bin"])
    assert [first for path, first in site.began if path == "/model-1.bin"][:2] == [0, size - 1000]
    del site.cut["/model-1.bin"]
    assert bring(revision).code == 0


def test_partial_file_of_wrong_bytes_is_thrown_away_and_the_whole_file_fetched(
    tmp_path: Path, site: Site, bring: Bring
) -> None:
    revision = site.publish(BIG)
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "model-1.bin.partial").write_bytes(b"evil" * 100)
    assert bring(revision).code == 0
    assert [first for path, first in site.began if path == "/model-1.bin"] == [400, 0]


def test_passing_error_is_tried_again(site: Site, bring: Bring) -> None:
    revision = site.publish(FILES)
    site.errors["/config.json"] = [503, 503]
    assert bring(revision).code == 0
    assert site.paths.count("/config.json") == 3


def test_store_that_only_fails_is_left_after_the_tries(site: Site, bring: Bring) -> None:
    revision = site.publish(FILES)
    site.errors["/config.json"] = [503] * 99
    done = bring(revision, "--tries", "3")
    assert done.code == fetch.FAILED
    assert site.paths.count("/config.json") == 3
    assert f"config.json: {site.url}/config.json: HTTP 503" in done.said


def test_silent_store_is_one_line(site: Site, bring: Bring) -> None:
    revision = site.publish(BIG)
    site.silent_after["/model-1.bin"] = 5
    done = bring(revision, "--timeout", "2", "--tries", "2")
    assert done.code == fetch.FAILED
    assert_message(*lines_with(done.said, "not fetched"), URL=site.url)
    assert done.said.count("model not fetched") == 1


def test_trickle_is_not_waited_for(tmp_path: Path, site: Site) -> None:
    revision = site.publish({"model.bin": b"w" * 5000})
    [entry] = parse(site.files["/manifest.json"], revision)
    manners = download.Manners(tries=1, slowest=1e12, window_s=0.0)
    source = FileSource(site.url)
    job = download.Job(entry, tmp_path / "model.bin", [source], manners, lambda count: None)
    with pytest.raises(download.FetchError) as raised:
        download.bring(job)
    assert_message(str(raised.value), PORT=PORT, TOOK=TOOK)
    assert not raised.value.final


def test_corrupt_peer_is_named_and_only_its_file_comes_from_the_store(
    tmp_path: Path, site: Site, new_site: Callable[[], Site], bring: Bring
) -> None:
    peer, revision = new_site(), site.publish(FILES)
    peer.publish(FILES)
    peer.files["/weights/model-1.bin"] = b"evil" * 750
    done = bring(revision, "--peer", peer.url)
    assert done.code == 0
    assert site.paths == ["/weights/model-1.bin"]
    assert f"weights/model-1.bin from {site.url}" in done.said
    assert f"config.json from {peer.url}" in done.said
    assert (tmp_path / "model/weights/model-1.bin").read_bytes() == FILES["weights/model-1.bin"]


def test_all_sources_of_a_corrupt_file_are_named(
    site: Site, new_site: Callable[[], Site], bring: Bring
) -> None:
    peer, revision = new_site(), site.publish(FILES)
    peer.publish(FILES)
    for one in (site, peer):
        one.files["/config.json"] = b"[]"
    done = bring(revision, "--peer", peer.url)
    text = "; ".join(f"{s.url}: {download.CORRUPT}" for s in (peer, site))
    assert f"model not fetched: config.json: {text}\n" in done.said


def test_peer_that_is_gone_is_asked_once_and_the_store_for_all(
    site: Site, new_site: Callable[[], Site], bring: Bring
) -> None:
    revision = site.publish(FILES)
    done = bring(revision, "--peer", "http://127.0.0.1:1/model", "--tries", "2")
    assert done.code == 0
    assert sorted(site.paths) == sorted(["/manifest.json", *(f"/{path}" for path in FILES)])


def test_peer_with_another_manifest_is_asked_for_nothing_more(
    site: Site, new_site: Callable[[], Site], bring: Bring
) -> None:
    peer, revision = new_site(), site.publish(FILES)
    peer.publish({"config.json": b"[]"})
    assert bring(revision, "--peer", peer.url).code == 0
    assert peer.paths == ["/manifest.json"]


def test_whole_model_of_a_peer_asks_nothing_of_the_store(
    site: Site, new_site: Callable[[], Site], bring: Bring
) -> None:
    peer = new_site()
    revision = peer.publish(FILES)
    assert bring(revision, "--peer", peer.url).code == 0
    assert site.asked == []


def test_token_is_for_the_store_and_never_for_a_peer(
    site: Site, new_site: Callable[[], Site], bring: Bring, token: tuple[str, str]
) -> None:
    peer, revision = new_site(), site.publish(FILES)
    peer.publish(FILES)
    del peer.files["/config.json"]
    assert bring(revision, "--peer", peer.url, *token).code == 0
    assert {sent for _, sent in peer.asked} == {None}
    assert {sent for _, sent in site.asked} == {f"Bearer {TOKEN}"}


def test_file_of_another_size_is_refused_before_its_bytes(site: Site, bring: Bring) -> None:
    revision = site.publish(FILES)
    site.files["/config.json"] = b"{ }"
    done = bring(revision)
    assert done.code == fetch.REFUSED
    assert_message(*lines_with(done.said, "not fetched"), URL=site.url)


def test_model_that_is_whole_asks_for_nothing_and_reads_nothing(
    tmp_path: Path, site: Site, bring: Bring, monkeypatch: pytest.MonkeyPatch
) -> None:
    revision = site.publish(FILES)
    bring(revision)
    site.asked.clear()
    before = {p: p.stat().st_mtime_ns for p in (tmp_path / "model").rglob("*")}

    def read(path: Path) -> str:
        raise AssertionError(f"{path} was read")

    monkeypatch.setattr("b200kit.node.weights.model_files.sha256", read)
    assert bring(revision).code == 0
    assert site.asked == []
    assert before == {p: p.stat().st_mtime_ns for p in (tmp_path / "model").rglob("*")}


def test_what_the_manifest_does_not_name_is_removed(
    tmp_path: Path, site: Site, bring: Bring
) -> None:
    revision = site.publish(FILES)
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "modeling_evil.py").write_text("import os")
    done = bring(revision)
    assert done.code == 0
    assert_message(*lines_with(done.said, "removed"), URL=site.url)
    assert not (tmp_path / "model" / "modeling_evil.py").exists()


def test_verify_hashes_what_is_there_and_names_what_is_not_right(
    tmp_path: Path, site: Site, bring: Bring
) -> None:
    revision = site.publish(FILES)
    bring(revision)
    site.asked.clear()
    assert bring(revision, "--verify") == Done(0, "3 files, 3.0 kB, proven\n")
    spoil(tmp_path / "model" / "config.json", b"[]")
    done = bring(revision, "--verify")
    assert done == Done(1, f"model not proven: config.json: {download.CORRUPT}\n")
    assert site.asked == []


def test_disk_that_fills_up_is_one_line_that_names_the_file(
    site: Site, bring: Bring, monkeypatch: pytest.MonkeyPatch
) -> None:
    revision = site.publish(FILES)

    class Full:
        def write(self, data: bytes) -> int:
            raise OSError(28, "No space left on device")

    write = download._write
    monkeypatch.setattr(download, "_write", lambda out, chunk, path: write(Full(), chunk, path))
    done = bring(revision, "--parallel", "1")
    assert done.code == fetch.REFUSED
    assert_message(*lines_with(done.said, "not fetched"), URL=site.url)


def test_two_fetches_never_work_in_one_directory(tmp_path: Path, site: Site, bring: Bring) -> None:
    revision = site.publish(BIG)
    site.silent_after["/model-1.bin"] = 5
    with spawn(site, tmp_path / "model", revision) as process:
        until_size(tmp_path / "model" / "model-1.bin.partial", 5)
        done = bring(revision)
        process.kill()
    assert done.code == fetch.FAILED
    assert_message(done.said, URL=site.url)


def test_status_says_how_far_it_is_and_why_it_ended(
    tmp_path: Path, site: Site, bring: Bring
) -> None:
    revision, status = site.publish(FILES), tmp_path / "status.json"
    bring(revision, "--status", str(status))
    document = json.loads(status.read_text())
    assert (document["state"], document["files_done"], document["files"]) == ("complete", 3, 3)
    assert document["have_bytes"] == document["total_bytes"] == 3002
    assert document["received_bytes"] == 3002
    bring("0" * 12, "--status", str(status))
    document = json.loads(status.read_text())
    assert document["state"] == "refused"
    assert "asked for 000000000000" in document["error"]


@contextmanager
def trickling(head: bytes, piece: bytes = b"x") -> Iterator[str]:
    """A server that sends *head* and then a byte now and then, for ever; its URL."""
    over = threading.Event()
    listener = socket.create_server(("127.0.0.1", 0))

    def serve(connection: socket.socket) -> None:
        with contextlib.suppress(OSError), connection:
            connection.recv(65536)
            connection.sendall(head)
            while not over.wait(0.05):
                connection.sendall(piece)

    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        over.set()
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()


HEADS = {
    "status": b"",
    "headers": b"HTTP/1.1 200 OK\r\nX-Long: ",
    "body": b"HTTP/1.1 200 OK\r\nContent-Length: 4096\r\n\r\n",
    "body of no length": b"HTTP/1.1 200 OK\r\n\r\n",
}


@in_subtests("part", HEADS)
def test_manifest_that_comes_a_byte_at_a_time_is_given_up(
    part: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("models")
    with trickling(HEADS[part]) as url:
        words = ["--url", url, "--dest", str(folder / "m"), "--revision", "0" * 64]
        options = fetch._parser().parse_args([*words, "--timeout", "0.5", "--tries", "1"])
        with pytest.raises(download.FetchError) as raised:
            fetch.fetch(options, Progress("0" * 64, None))
    message = re.sub(r"\d+ bytes", "N bytes", str(raised.value))
    assert_message(message, PORT=PORT)


def test_it_checks_until_a_source_has_sent_a_byte(tmp_path: Path) -> None:
    status = tmp_path / "status.json"

    def state() -> str:
        return str(json.loads(status.read_text())["state"])

    progress = Progress("0" * 64, status)
    progress.expect(total=10, have=4, files=2, done=1)
    assert (state(), json.loads(status.read_text())["have_bytes"]) == ("checking", 4)
    progress.arrived(6)
    end = time.monotonic() + 60
    while state() != "fetching":
        assert time.monotonic() < end
        time.sleep(0.01)
    progress.end("complete")
    assert state() == "complete"


def test_refusal_before_the_first_byte_is_the_last_word(tmp_path: Path) -> None:
    status = tmp_path / "status.json"
    progress = Progress("0" * 64, status)
    progress.expect(total=10, have=0, files=1, done=0)
    progress.end("refused", "401")
    assert json.loads(status.read_text())["state"] == "refused"
