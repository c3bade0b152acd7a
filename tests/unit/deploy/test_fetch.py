"""A model is taken from a real HTTP server, every byte proven; anything else is refused."""

from __future__ import annotations

import hashlib
import json
import shutil
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from deploy.node import fetch

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

    def start() -> Site:
        site = Site()
        server = ThreadingHTTPServer(("127.0.0.1", 0), handler_of(site))
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        servers.append(server)
        site.url = f"http://127.0.0.1:{server.server_address[1]}"
        return site

    yield start
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
            content = site.files.get(self.path)
            if content is None:
                self.send_error(404)
                return
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content[: len(content) - site.cut.get(self.path, 0)])

        def log_message(self, format: str, *args: Any) -> None:
            """Say nothing."""

    return Handler


@pytest.fixture
def site(new_site: Callable[[], Site]) -> Site:
    """One store."""
    return new_site()


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
        code = fetch.main([*place, "--revision", revision, "--timeout", "10", *more])
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
    assert bring(revision[:12]) == Done(0, "3 files\n")
    got = {path: (tmp_path / "model" / path).read_bytes() for path in FILES}
    assert got == FILES
    assert (tmp_path / "model" / fetch.STAMP).read_text() == revision[:12]


def test_manifest_of_another_revision_is_refused(tmp_path: Path, site: Site, bring: Bring) -> None:
    revision = site.publish(FILES)
    done = bring("0123456789ab")
    assert done.code == 1
    assert f"manifest is {revision[:12]}, asked for 0123456789ab" in done.said
    assert site.paths == ["/manifest.json"]
    assert not (tmp_path / "model").exists()


def test_file_that_is_not_what_the_manifest_names_is_refused(
    tmp_path: Path, site: Site, bring: Bring
) -> None:
    revision = site.publish(FILES)
    site.files["/weights/model-1.bin"] = b"evil" * 750
    done = bring(revision)
    assert done.code == 1
    assert "weights/model-1.bin: content is not what the manifest names" in done.said
    left = {path.name for path in (tmp_path / "model").rglob("*") if path.is_file()}
    assert left == {"config.json"}


def test_answer_cut_short_is_refused(tmp_path: Path, site: Site, bring: Bring) -> None:
    revision = site.publish({"model.bin": b"w" * 5000})
    site.cut["/model.bin"] = 1000
    done = bring(revision)
    assert done.code == 1
    assert not (tmp_path / "model" / fetch.STAMP).exists()
    assert not (tmp_path / "model" / "model.bin").exists()


def test_interrupted_fetch_goes_on_with_what_is_right(
    tmp_path: Path, site: Site, bring: Bring
) -> None:
    revision = site.publish(FILES)
    weights = site.files.pop("/weights/model-1.bin")
    assert bring(revision).code == 1
    site.files["/weights/model-1.bin"] = weights
    site.asked.clear()
    assert bring(revision).code == 0
    assert site.paths == ["/manifest.json", "/weights/model-1.bin", "/weights/empty"]


def test_file_that_rotted_on_the_disk_is_fetched_again(
    tmp_path: Path, site: Site, bring: Bring
) -> None:
    revision = site.publish(FILES)
    bring(revision)
    (tmp_path / "model" / "config.json").write_bytes(b"[]")
    site.asked.clear()
    assert bring(revision).code == 0
    assert site.paths == ["/manifest.json", "/config.json"]
    assert (tmp_path / "model" / "config.json").read_bytes() == b"{}"


def test_model_is_readable_by_the_server(tmp_path: Path, site: Site, bring: Bring) -> None:
    bring(site.publish(FILES))
    assert (tmp_path / "model" / "config.json").stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize("path", ["../outside", "/etc/outside", "a/../../outside"])
def test_manifest_cannot_write_outside_the_model(
    tmp_path: Path, site: Site, bring: Bring, path: str
) -> None:
    done = bring(site.publish({path: b"x"}))
    assert done.code == 1
    assert f"a path outside the model: {path}" in done.said
    assert site.paths == ["/manifest.json"]
    assert not list(tmp_path.rglob("outside"))


def test_no_disk_space_is_told_before_the_first_byte(
    tmp_path: Path, site: Site, bring: Bring, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage(tmp_path)._replace(free=3001)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    revision = site.publish(FILES)
    done = bring(revision)
    assert done.code == 1
    assert "no disk space: 3002 bytes to fetch, 3001 free" in done.said
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
    assert done.code == 1
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
    assert done.code == 1
    assert done.said.startswith("model not fetched: ")
    assert done.said.count("\n") == 1


def test_manifest_cut_short_is_one_line(site: Site, bring: Bring) -> None:
    revision = site.publish(FILES)
    site.cut["/manifest.json"] = 10
    done = bring(revision)
    assert done.code == 1
    assert done.said.startswith("model not fetched: ")
    assert done.said.count("\n") == 1
