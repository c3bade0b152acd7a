"""The image of the controller: `make image` on a base of Debian's packages, then run."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from b200kit import __version__
from tests.lab.mounts import remove_tree
from tests.lab.own_network import outside
from tests.lab.shell import ensure_host_packages, run
from tests.lab.supply.debian import debian_sources
from tests.lab.supply.systems import DEFAULT

pytestmark = pytest.mark.vendor
ROOT = Path(__file__).resolve().parents[2]
LOCK = ROOT / "requirements" / "controller.txt"
IMAGE = f"localhost/b200kit:{__version__}"


class Buildah:
    """buildah with a store of its own; chroot confines what it runs, which needs no cgroup."""

    def __init__(self, folder: Path) -> None:
        self.command = ["buildah", "--root", str(folder / "root"), "--runroot", str(folder / "run")]

    def __call__(self, *words: str) -> str:
        return run([*self.command, *words], timeout=600).stdout.strip()

    def run(self, container: str, *words: str) -> subprocess.CompletedProcess[str]:
        """What a command in the image says, by the user and in the folder that the image names."""
        asked = [*self.command, "run", "--isolation", "chroot", container, "--", *words]
        return run(asked, check=False, timeout=60)


@pytest.fixture(scope="module")
def buildah(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Buildah]:
    """The image, built by `make image` from wheels that were fetched by the lock's hashes."""
    folder = tmp_path_factory.mktemp("image")
    wheels, settings = folder / "wheels", folder / "pip.conf"
    settings.write_text("[global]\nno-index = true\nfind-links = /wheels\n")
    made = Buildah(folder / "store")
    with outside():
        ensure_host_packages(print, {"buildah": "buildah", "mmdebstrap": "mmdebstrap"}, {})
        download = ["download", "--no-deps", "--require-hashes", "--requirement", str(LOCK)]
        run([sys.executable, "-m", "pip", "-q", *download, "--dest", str(wheels)], timeout=600)
        run(
            ["mmdebstrap", "--quiet", "--variant=apt", "--mode=root",
             "--include=ca-certificates,python3,python3-venv",
             '--aptopt=APT::Install-Recommends "false"',
             DEFAULT.suite, str(folder / "base.tar"), *debian_sources(DEFAULT)],
            timeout=600,
        )  # fmt: skip
        base = made("from", "scratch")
        made("add", base, str(folder / "base.tar"), "/")
        made("commit", "--rm", base, "localhost/base")
        options = f"--isolation chroot --network host -v {wheels}:/wheels:ro"
        options += f" -v {settings}:/etc/pip.conf:ro"
        words = [f"BUILDER={' '.join(made.command)}", "BASE=localhost/base"]
        run(["make", "-C", str(ROOT), "image", *words, f"BUILD_OPTIONS={options}"], timeout=900)
    yield made
    made("rm", "--all")
    made("rmi", "--all", "--force")
    remove_tree(folder)


def test_b200_is_what_the_image_runs_as_an_ordinary_user(buildah: Buildah) -> None:
    config = json.loads(buildah("inspect", "--type", "image", IMAGE))["OCIv1"]["config"]
    assert (config["Entrypoint"], config["User"], config["WorkingDir"]) == (
        ["b200"], "b200", "/site",
    )  # fmt: skip


def test_it_judges_and_has_what_commands_call(buildah: Buildah) -> None:
    container = buildah("from", IMAGE)
    assert buildah.run(container, "b200", "--version").stdout == f"b200 {__version__}\n"
    judged = buildah.run(container, "b200", "judge", "--example", "gpu2-no-nvlink")
    assert (judged.returncode, "UNFIT" in judged.stdout) == (1, True)
    programs = buildah.run(container, "which", "ssh", "ssh-keygen", "gpg", "apt-ftparchive", "uv")
    assert programs.returncode == 0
    assert buildah.run(container, "id", "-u").stdout == "1000\n"
