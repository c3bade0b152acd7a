"""The world outside a site, as the lab plays it: a vendor's repository, a package index, the Hub.

Everything is on this machine's loopback; only Debian's packages come from where this machine has
them. Nodes reach none of it: they are in the lab's network, which has no way out.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.e2e.driving import ROOT
from tests.lab.own_network import outside
from tests.lab.paths import MODEL_NAME, LabPaths
from tests.lab.supply import deb, oci_image
from tests.lab.supply.aptrepo import publish
from tests.lab.supply.debian import debian_sources
from tests.lab.supply.gpg import signing_key
from tests.lab.supply.internet.hub import Hub, Repository, served
from tests.lab.supply.mirror import MANIFEST
from tests.lab.supply.repositories import KEY, VENDOR_LABEL
from tests.lab.supply.systems import system_of

B200 = Path(sys.executable).with_name("b200")
REPOSITORY, COMMIT = "org/tiny-llama", "c" * 40
_KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"


@dataclass(frozen=True)
class Said:
    """One finished command."""

    code: int
    out: str
    err: str

    @property
    def said(self) -> str:
        """Everything that was printed."""
        return self.out + self.err


@dataclass(frozen=True)
class Outside:
    """Where its parts are, while they are there."""

    lab: LabPaths
    url: str
    hub: Hub
    home: Path

    def environment(self) -> dict[str, str]:
        """Variables of a process for which the tools' own defaults lie in this world."""
        return {
            **os.environ,
            "HF_ENDPOINT": self.hub.url,
            "HF_HOME": str(self.home / "hf"),
            "HOME": str(self.home),
            "UV_NO_INDEX": "1",
            "UV_FIND_LINKS": f"{self.url}/wheels/",
            "UV_CACHE_DIR": str(self.home / "uv"),
        }

    def b200(self, *words: str | Path, cwd: Path = ROOT) -> Said:
        """Run `b200` with a way out, as on the machine where a mirror is built."""
        with outside():
            done = subprocess.run(
                [str(B200), *map(str, words)], cwd=cwd, env=self.environment(), text=True,
                capture_output=True, stdin=subprocess.DEVNULL, timeout=1200, check=False,
            )  # fmt: skip
        return Said(done.returncode, done.stdout, done.stderr)

    def image(self) -> str:
        """A container image of the world's registry, by its digest."""
        without_tls(self.home, self.url)
        layer = self.home / "layer.tar"
        layer.write_bytes(b"layer" * 1000)
        digest = oci_image.publish(self.home / "www", "vendor/engine", [layer])
        return f"{self.url.removeprefix('http://')}/vendor/engine@{digest}"

    def distribution(self) -> Path:
        """Debian's archive as this machine is set up to use it, as a .sources file."""
        path = self.home / "distribution.sources"
        stanzas = [
            f"Types: deb\nURIs: {uri}\nSuites: {suite}\nComponents: main\nSigned-By: {_KEYRING}\n"
            for _, uri, suite, _ in (line.split() for line in debian_sources(system_of(self.lab)))
        ]
        path.write_text("\n".join(stanzas))
        return path


def without_tls(home: Path, url: str) -> None:
    """Have skopeo of a user with this home speak to a registry without TLS."""
    path = home / ".config/containers/registries.conf"
    path.parent.mkdir(parents=True)
    location = url.removeprefix("http://")
    path.write_text(f'[[registry]]\nlocation = "{location}"\ninsecure = true\n')


class _Files(SimpleHTTPRequestHandler):
    def guess_type(self, path: Any) -> str:
        """What a registry's clients go by."""
        return MANIFEST if Path(path).parent.name == "manifests" else super().guess_type(path)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


def _documents(lab: LabPaths, home: Path) -> Path:
    """Package index, registry, and vendor's repository with something in place of Debian's dkms.

    A simulated node's module is simulated, too; a real dkms would miss its kernel's headers.
    """
    root = home / "www"
    root.mkdir()
    (root / "wheels").symlink_to(lab.documents / "wheels")
    own = deb.build(deb.Package("dkms", "99", "modules are not built but simulated"), home)
    debs = [*(lab.documents / "apt/vendor/pool").glob("*.deb"), own]
    with signing_key(lab.gnupg, KEY) as key:
        publish(root / "apt/vendor", debs, key, VENDOR_LABEL)
    return root


@contextmanager
def world(lab: LabPaths, revision: str, home: Path) -> Iterator[Outside]:
    """The world, with the lab's model on its Hub, until the end of the block; then it is gone."""
    published = lab.mirror / "models" / MODEL_NAME / revision
    files = {p.name: p.read_bytes() for p in published.iterdir() if p.name != "manifest.json"}
    handler = partial(_Files, directory=str(_documents(lab, home)))
    with outside():
        server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        hub = served(Hub({REPOSITORY: Repository(files)}))
        there = hub.__enter__()
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield Outside(lab, f"http://127.0.0.1:{server.server_port}", there, home)
    finally:
        hub.__exit__(None, None, None)
        server.shutdown()
        server.server_close()
        thread.join()
