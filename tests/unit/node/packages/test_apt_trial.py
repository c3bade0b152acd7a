"""The trial of a run's sources and packages by the real apt, over signed repositories of files."""

from __future__ import annotations

import base64
import re
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from b200kit.node.lib.apt_output import errors_of
from b200kit.node.packages import apt_trial
from b200kit.node.packages.transaction import PackageTransaction
from b200kit.node.state.drift import Package
from tests.lab.supply.aptrepo import release_text
from tests.lab.supply.gpg import SigningKey, signing_key
from tests.unit.node.lib.test_error_line import APT_3_WEAK_KEY

pytestmark = pytest.mark.process

OURS = "/etc/apt/sources.list.d/b200kit-vendor.sources"
VENDOR = {"nvidia-open": ("580.126.20-1", "nvidia-persistenced"), "nvidia-persistenced": ("1", "")}
DEBIAN = {"numactl": ("2.0.16-1", ""), "a-driver": ("535-1", "nvidia-installer-cleanup")}


@dataclass
class Site:
    """Two repositories, a node's /etc/apt that names one of them, and what a run would add."""

    root: Path
    keys: dict[str, str] = field(default_factory=dict)

    @property
    def etc(self) -> Path:
        """The node's /etc/apt."""
        return self.root / "etc"

    def url(self, name: str) -> str:
        """Of a repository."""
        return f"file:{self.root}/{name}/"

    def source(self, url: str, signed_by: str) -> bytes:
        """A source as the run writes it."""
        return f"Types: deb\nURIs: {url}\nSuites: ./\nSigned-By: {signed_by}\n".encode()

    def ours(self, url: str, key: str) -> bytes:
        """The run's source with a key in it."""
        lines = (f" {line or '.'}" for line in self.keys[key].splitlines())
        return self.source(url, "\n" + "\n".join(lines))

    def publish(self, name: str, packages: dict[str, tuple[str, str]], key: SigningKey) -> None:
        """A signed index of packages that need not exist."""
        folder = self.root / name
        folder.mkdir()
        text = "".join(
            f"Package: {package}\nVersion: {version}\nArchitecture: all\nMaintainer: x <x@x>\n"
            f"{f'Depends: {depends}' if depends else 'Section: misc'}\n"
            f"Filename: ./{package}.deb\nSize: 1\nSHA256: {'0' * 64}\nDescription: x\n\n"
            for package, (version, depends) in packages.items()
        )
        (folder / "Packages").write_text(text)
        release = release_text({"Packages": text.encode()}, name, datetime.now(UTC))
        (folder / "Release").write_text(release)
        key.sign_release(folder / "Release")
        self.keys[name] = key.armored()

    def tried(
        self, *packages: Package, url: str = "", key: str = "vendor", only: str | None = None
    ) -> dict[str, Any]:
        """What the node's apt says of the run's source and packages."""
        files = {OURS: self.ours(url or self.url("vendor"), key)}
        encoded = {path: base64.b64encode(content).decode() for path, content in files.items()}
        transaction = PackageTransaction(packages, only=only)
        return apt_trial.tried(apt_trial.AptTrial(transaction, encoded, simulate=True, limit_s=60))

    def snapshot(self) -> dict[str, bytes]:
        """Every file of the node's configuration and state."""
        places = [self.etc, self.root / "run", self.root / "state"]
        files = (path for place in places for path in place.rglob("*") if path.is_file())
        return {str(path): path.read_bytes() for path in files}


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Site:
    """The repositories, with one key each."""
    site = Site(tmp_path_factory.mktemp("apt"))
    for name, packages in (("vendor", VENDOR), ("debian", DEBIAN)):
        with signing_key(site.root / "gnupg", name) as key:
            site.publish(name, packages, key)
    return site


@pytest.fixture
def site(published: Site, monkeypatch: pytest.MonkeyPatch) -> Site:
    """The node as it came; its hooks would leave a file."""
    for folder in ("sources.list.d", "apt.conf.d", "keyrings"):
        (published.etc / folder).mkdir(parents=True, exist_ok=True)
        for path in (published.etc / folder).iterdir():
            path.unlink()
    etc, root = published.etc, published.root
    (root / "state").mkdir(exist_ok=True)
    (root / "status").touch()
    (etc / "apt.conf.d/20node").write_text(
        f'Dir::State "{root}/state";\nDir::State::status "{root}/status";\n'
        f'APT::Architecture "amd64";\nAPT::Sandbox::User "root";\n'
        f'APT::Update::Post-Invoke {{"touch {root}/state/hook";}};\n'
    )
    (etc / "keyrings/debian.asc").write_text(published.keys["debian"])
    source = published.source(published.url("debian"), f"{etc}/keyrings/debian.asc")
    (etc / "sources.list.d/debian.sources").write_bytes(source)
    (root / "node.conf").write_text(f'Dir::Etc "{etc}/";\n')
    monkeypatch.setenv("APT_CONFIG", str(root / "node.conf"))
    monkeypatch.setattr(apt_trial, "APT", etc)
    monkeypatch.setattr(apt_trial, "PARENT", root / "run")
    return published


def test_sound_site_has_nothing_to_say_and_nothing_on_the_node_changes(site: Site) -> None:
    before = site.snapshot()
    found = site.tried(
        Package("nvidia-open", "580.126.20"), Package("numactl"), Package("libnvsdm", optional=True)
    )
    assert (found["update"], found["problems"], found["install"]) == ([], [], [])
    assert found["missing"] == ["libnvsdm"]
    assert site.snapshot() == before


def test_version_that_no_repository_has_is_named_with_what_there_is(site: Site) -> None:
    [problem] = site.tried(Package("nvidia-open", "580.999.01"))["problems"]
    assert problem.startswith("apt has no nvidia-open 580.999.01, only 580.126.20-1; asked: ")


def test_dependency_in_a_component_that_is_off_is_named(site: Site) -> None:
    found = site.tried(Package("a-driver"))
    assert any("nvidia-installer-cleanup" in line for line in found["install"]), found


def test_repository_signed_by_another_key_is_named(site: Site) -> None:
    found = site.tried(Package("nvidia-open"), key="debian")
    said = " ".join(found["update"])
    assert "not signed" in said or "NO_PUBKEY" in said, found
    assert site.url("vendor").rstrip("/") in said
    assert found["install"] is None


def test_error_of_a_signature_says_why_it_does_not_hold(site: Site) -> None:
    """By this machine's own apt, and in the words of apt 3."""
    [line] = site.tried(Package("nvidia-open"), key="debian")["update"]
    assert re.search("(?i)(no_pubkey|missing key) [0-9a-f]{16,}", line), line
    [weak] = errors_of(APT_3_WEAK_KEY.splitlines())
    assert weak.startswith("The repository 'file:/srv/r ./ InRelease' is not signed: Signing key ")
    assert weak.endswith(" is not bound: SHA1 is not considered secure since 2026-02-01T00:00:00Z")


def test_repository_that_cannot_be_reached_is_named(site: Site) -> None:
    found = site.tried(Package("nvidia-open"), url="http://127.0.0.1:9/apt/")
    assert any("Failed to fetch http://127.0.0.1:9/apt" in line for line in found["update"])
    assert not any("Some index files" in line for line in found["update"])


def test_other_list_of_the_same_repository_with_another_key_is_named(site: Site) -> None:
    """What apt answers by refusing every repository (CUDA's own list on an image)."""
    other = site.source(site.url("vendor"), "/usr/share/keyrings/cuda-archive-keyring.gpg")
    (site.etc / "sources.list.d/cuda.sources").write_bytes(other)
    found = site.tried(Package("nvidia-open"))
    [line] = found["update"]
    assert "Conflicting values set for option Signed-By" in line


def test_of_one_list_alone_the_nodes_own_may_point_where_there_is_no_way_to(site: Site) -> None:
    own = site.source("http://127.0.0.1:9/debian/", f"{site.etc}/keyrings/debian.asc")
    (site.etc / "sources.list.d/debian.sources").write_bytes(own)
    assert site.tried(Package("nvidia-open"))["update"] != []
    found = site.tried(
        Package("nvidia-open", "580.126.20"), Package("numactl", optional=True), only=OURS
    )
    assert (found["update"], found["problems"], found["install"]) == ([], [], [])
    assert found["missing"] == ["numactl"]
