"""Our apt preferences, read by the real apt over a vendor's repository and an Ubuntu archive."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from b200kit.node.lib.apt_output import offers
from b200kit.node.packages.candidates import choose
from b200kit.node.state.drift import Package
from b200kit.run.render import render

pytestmark = pytest.mark.skipif(
    not (shutil.which("apt-cache") and shutil.which("dpkg")), reason="no apt on this machine"
)

DRIVER = "580.126.20"
VENDOR = {
    "nvidia-open": ("580.126.20-1", "580.159.03-1", "590.48.01-1"),
    "nvidia-fabricmanager": ("580.126.20-1", "580.159.03-1", "590.48.01-1"),
    "libnvidia-compute": ("580.126.20-1", "590.48.01-1"),
    "nvidia-container-toolkit": ("1.20.0-1",),
    "libnvidia-container1": ("1.20.0-1",),
    "nvlsm": ("2025.06.11-1", "2025.10.11-1"),
    "datacenter-gpu-manager-4-core": ("1:4.4.1-1", "1:4.5.0-1"),
}
ARCHIVE = {
    "nvidia-fabricmanager": ("580.126.20-0ubuntu0.24.04.1", "599.10.01-0ubuntu0.24.04.1"),
    "nvidia-fabricmanager-580": ("580.159.03-0ubuntu0.24.04.1",),
    "libnvidia-nscq": ("599.10.01-0ubuntu0.24.04.1",),
    "libnvidia-compute": ("599.10.01-0ubuntu0.24.04.1",),
    "nvlsm": ("2099.01.01-0ubuntu1",),
    "nvidia-support": ("20220217",),
    "numactl": ("2.0.18-1",),
}


# Of neither origin that the preferences know: a PPA, or a site's own archive.
OTHER = {
    "nvidia-open": ("580.126.20-1~ubuntu24.04~ppa2", "580.126.20-2~ppa1"),
    "nvidia-driver-pinning-580.126.20": ("580.126.20-2",),
}
REPOSITORIES = {"vendor": ("NVIDIA", VENDOR), "archive": ("Ubuntu", ARCHIVE)}
THREE = {**REPOSITORIES, "other": ("LP-PPA-graphics-drivers", OTHER)}


class Apt:
    """apt with a root of its own: repositories, and the preferences under test."""

    def __init__(
        self,
        root: Path,
        preferences: bytes,
        repositories: Mapping[str, tuple[str, Mapping[str, Sequence[str]]]] = REPOSITORIES,
    ) -> None:
        self.root = root
        for folder in ("lists/partial", "cache/archives/partial", "prefs"):
            (root / folder).mkdir(parents=True)
        (root / "status").touch()
        (root / "prefs/b200kit.pref").write_bytes(preferences)
        lines = [f"deb [trusted=yes] file:{root}/{name} ./\n" for name in repositories]
        (root / "sources.list").write_text("".join(lines))
        for name, (origin, packages) in repositories.items():
            self.publish(name, origin, packages)
        self.run("apt-get", "update")

    def publish(self, name: str, origin: str, packages: Mapping[str, Sequence[str]]) -> None:
        """An index of packages that need not exist, under a release of this origin."""
        folder = self.root / name
        folder.mkdir()
        entries = [
            f"Package: {package}\nVersion: {version}\nArchitecture: all\nMaintainer: x <x@x>\n"
            f"Filename: ./{package}_{version.split()[0]}.deb\nSize: 1\nSHA256: {'0' * 64}\n"
            "Description: x\n"
            for package, versions in packages.items()
            for version in versions
        ]
        (folder / "Packages").write_text("\n".join(entries))
        (folder / "Release").write_text(f"Origin: {origin}\nSuite: ./\n")

    def run(self, program: str, *arguments: str) -> str:
        """stdout of one of apt's programs."""
        settings = {
            "Dir::State": self.root,
            "Dir::State::lists": self.root / "lists",
            "Dir::State::status": self.root / "status",
            "Dir::Cache": self.root / "cache",
            "Dir::Etc::SourceList": self.root / "sources.list",
            "Dir::Etc::SourceParts": "/dev/null",
            "Dir::Etc::Preferences": "/dev/null",
            "Dir::Etc::PreferencesParts": self.root / "prefs",
            "APT::Sandbox::User": "root",
            "Debug::NoLocking": "true",
        }
        options = [f"--option={key}={value}" for key, value in settings.items()]
        command = [program, *options, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def candidate(self, name: str) -> str | None:
        """What apt would install of a package; None when it would install none."""
        for line in self.run("apt-cache", "policy", name).splitlines():
            if line.startswith("  Candidate: "):
                version = line.removeprefix("  Candidate: ")
                return None if version == "(none)" else version
        return None


@pytest.fixture(scope="module")
def apt(tmp_path_factory: pytest.TempPathFactory) -> Apt:
    """apt under our preferences."""
    own = [Package("nvlsm", "2025.06.11-1"), Package("datacenter-gpu-manager-4-core", "4.4.1")]
    preferences = render("apt/b200kit.pref.j2", driver=DRIVER, packages=own)
    return Apt(tmp_path_factory.mktemp("apt"), preferences)


@pytest.mark.parametrize(
    ("name", "version"),
    [
        ("nvidia-open", "580.126.20-1"),
        ("nvidia-fabricmanager", "580.126.20-1"),
        ("libnvidia-compute", "580.126.20-1"),
        ("nvlsm", "2025.06.11-1"),
        ("datacenter-gpu-manager-4-core", "1:4.4.1-1"),
        ("nvidia-fabricmanager-580", None),
        ("libnvidia-nscq", None),
    ],
)
def test_set_stays_at_the_inventorys_version_from_the_vendor(
    apt: Apt, name: str, version: str | None
) -> None:
    assert apt.candidate(name) == version


@pytest.mark.parametrize(
    ("name", "version"),
    [
        ("nvidia-container-toolkit", "1.20.0-1"),
        ("libnvidia-container1", "1.20.0-1"),
        # What the vendor's own packages for Debian depend on (contrib).
        ("nvidia-support", "20220217"),
        ("numactl", "2.0.18-1"),
    ],
)
def test_everything_else_is_left_alone(apt: Apt, name: str, version: str) -> None:
    assert apt.candidate(name) == version


def test_without_the_preferences_the_archive_would_be_preferred(tmp_path: Path) -> None:
    bare = Apt(tmp_path / "apt", b"")
    assert bare.candidate("nvidia-fabricmanager") == "599.10.01-0ubuntu0.24.04.1"
    assert bare.candidate("nvidia-fabricmanager-580") is not None


def test_archives_build_of_the_same_version_is_not_chosen(apt: Apt) -> None:
    desired = [Package("nvidia-fabricmanager", DRIVER), Package("nvidia-fabricmanager-580")]
    policy = apt.run("apt-cache", "policy", *(package.name for package in desired))
    choice = choose(desired, offers(policy), ["x"])
    assert choice.words == ("nvidia-fabricmanager=580.126.20-1",)
    assert len(choice.problems) == 1


def test_pin_of_another_version_in_a_later_file_does_not_win(apt: Apt, tmp_path: Path) -> None:
    other = "Package: nvidia-fabricmanager\nPin: version 580.159.03-*\nPin-Priority: 1000\n"
    path = apt.root / "prefs/nvidia-driver-pinning-580.159.03.pref"
    path.write_text(other)
    try:
        assert apt.candidate("nvidia-fabricmanager") == "580.126.20-1"
    finally:
        path.unlink()


@pytest.mark.parametrize("named", [True, False], ids=["the inventory's", "any"])
def test_build_of_the_same_version_from_a_third_archive_is_not_chosen(
    tmp_path: Path, named: bool
) -> None:
    # For apt, which knows a version by its text, both are the inventory's.
    apt = Apt(tmp_path / "apt", render("apt/b200kit.pref.j2", driver=DRIVER, packages=[]), THREE)
    desired = [
        Package("nvidia-open", DRIVER),
        Package("nvidia-driver-pinning-580.126.20", optional=True),
    ]
    policy = apt.run("apt-cache", "policy", *(package.name for package in desired))
    own = [f"file:{apt.root}/vendor"] if named else []
    choice = choose(desired, offers(policy), ["x"], own)
    assert choice.words[0] == (
        "nvidia-open=580.126.20-1" if named else "nvidia-open=580.126.20-2~ppa1"
    )
    assert len(choice.missing) == named


@pytest.mark.parametrize("ours", [True, False], ids=["with our settings", "without"])
def test_nodes_take_a_phased_update_alike(tmp_path: Path, ours: bool) -> None:
    """Ubuntu gives an update to a part of all machines first, by their ids."""
    phased = {"numactl": ("2.0.18-1", "2.0.18-2\nPhased-Update-Percentage: 50")}
    apt = Apt(tmp_path / "apt", b"", {"archive": ("Ubuntu", phased)})
    (apt.root / "status").write_text(
        "Package: numactl\nStatus: install ok installed\nVersion: 2.0.18-1\nArchitecture: all\n"
        "Maintainer: x <x@x>\nDescription: x\n"
    )
    conf = apt.root / "ours.conf"
    conf.write_bytes(render("host/apt.conf.j2") if ours else b"")
    upgrades = set()
    for node in range(16):
        machine = ["-o", f"APT::Machine-ID={node:032x}", "-c", str(conf)]
        said = apt.run("apt-get", *machine, "--simulate", "upgrade")
        upgrades.add("Inst numactl" in said)
    assert upgrades == ({False} if ours else {False, True})
