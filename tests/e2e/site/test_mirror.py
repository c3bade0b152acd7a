"""Nodes that reach a mirror alone: built from what the lab plays as the world, carried, served.

One node goes live on the whole mirror; the other one meets one that somebody else signed, and at
night a tampered one, file by file, until it goes live at last. Then the first is upgraded from the
next mirror, carried by rsync.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest

import tests.lab as lab
from b200kit.supply.mirror import signature
from tests.e2e.conftest import SHORT, Boot
from tests.e2e.driving import ROOT, Outcome, deploy, on
from tests.e2e.site.outside import B200, COMMIT, REPOSITORY, Outside, Said, without_tls, world
from tests.lab import standin
from tests.lab.inventory import nodes
from tests.lab.own_network import join, outside
from tests.lab.paths import BRIDGE_ADDRESS, MODEL_NAME, lab_paths
from tests.lab.shell import ensure_host_packages
from tests.lab.supply.engine import PACKAGE, STAND_IN
from tests.lab.supply.mirror_process import stop_mirror
from tests.lab.supply.wheelfile import write_wheel
from tests.lab.supply.wheels import requirements_text

WHOLE, TAMPERED = "b200-1", "b200-2"
PORT = 8099
OVER = "Wed, 01 Jan 2020 00:00:00 UTC"
NEXT_DRIVER, NEXT_ENGINE = "580.159.03", "9.0.0"
INVENTORY = """\
import json

from b200kit.operations import preflight

preflight.attach()

nodes = [tuple(host) for host in json.loads({hosts!r})]
"""


@dataclass
class Site:
    """A site: its inventory, the mirror that was built outside, and the one that nodes reach."""

    folder: Path
    world: Outside
    image: str
    data: dict[str, Any]

    @property
    def inventory(self) -> Path:
        """The inventory's file."""
        return self.folder / "inventories/prod.py"

    @property
    def key(self) -> Path:
        """The mirror's public key, as the site has it."""
        return self.folder / "inventories/keys/mirror.asc"

    @property
    def built(self) -> Path:
        """The mirror on the machine with a way out."""
        return self.folder / "built"

    @property
    def carried(self) -> Path:
        """The mirror that nodes reach."""
        return self.folder / "carried"

    def write(self, **changes: Any) -> None:
        """Write the inventory: both nodes by the lab's own connection."""
        self.data |= changes
        hosts = [
            (name, {k: v for k, v in host.items() if k != "model_store"} | self.data)
            for name, host in nodes()
        ]
        self.inventory.write_text(INVENTORY.format(hosts=json.dumps(hosts)))

    def words(self) -> list[str]:
        """The command that builds the mirror."""
        given = {
            "--to": self.built, "--distribution": f"debian12={self.world.distribution()}",
            "--private-key": self.folder / "private", "--image": self.image,
        }  # fmt: skip
        options = [str(word) for pair in given.items() for word in pair]
        return ["mirror", "build", "-i", str(self.inventory), *options]

    def build(self) -> Said:
        """Build the mirror, outside."""
        return self.world.b200(*self.words())

    def verify(self, root: Path) -> Said:
        """Prove a mirror by the site's own copy of the key."""
        return self.world.b200("mirror", "verify", root, "--public-key", self.key)

    def run(self, node: str) -> Outcome:
        """A run on one of the nodes."""
        return deploy("b200.py", "--limit", node, inventory=str(self.inventory))


@pytest.fixture(scope="module")
def site(boot: Boot, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Two bare nodes, and an inventory that names a mirror which is nowhere yet."""
    state = boot("healthy", "healthy")
    join()
    folder = tmp_path_factory.mktemp("site")
    keys = folder / "inventories/keys"
    revision, home = state["model"]["revision"], tmp_path_factory.mktemp("outside")
    with world(lab_paths(), revision, home) as there:
        made = there.b200("mirror", "key", "--to", keys, "--private-key", folder / "private")
        assert made.code == 0, made.said
        models = keys.parent / "models"
        pin = there.b200("model", "pin", f"{REPOSITORY}@{COMMIT}", "--to", models)
        assert pin.code == 0, pin.said
        vendor = {
            "name": "vendor", "url": f"{there.url}/apt/vendor/",
            "key": state["mirror"]["apt_key"], "fingerprint": state["mirror"]["apt_fingerprint"],
        }  # fmt: skip
        [(_, host), _] = nodes()
        engine = {k: v for k, v in host["engine"].items() if k != "wheelhouse"}
        source = {
            "mirror": f"http://{BRIDGE_ADDRESS}:{PORT}", "key": str(keys / "mirror.asc"),
            "fingerprint": made.out.split('"')[7],
        }  # fmt: skip
        data = {
            "system": "debian12", "source": source, "repositories": [vendor], "engine": engine,
            "model_revision": pin.out.split('"')[3], "smoke": SHORT, "hf_token": None,
        }  # fmt: skip
        (keys.parent / "group_data").mkdir()
        shutil.copy(ROOT / "inventories/group_data/all.py", keys.parent / "group_data")
        site = Site(folder, there, there.image(), data)
        site.write()
        yield site


@pytest.fixture(scope="module")
def built(site: Site) -> Said:
    """`b200 mirror build`, with a way out: one that is killed at work, and the next."""
    with outside(), subprocess.Popen(
        [str(B200), *site.words()], env=site.world.environment(), text=True,
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True,
    ) as first:  # fmt: skip
        assert first.stderr is not None
        said = iter(first.stderr.readline, "")
        seen = list(takewhile(lambda line: not line.startswith("packages "), said))
        assert first.poll() is None, seen
        os.killpg(first.pid, signal.SIGKILL)
    assert not (site.built / "SHA256SUMS").exists()
    return site.build()


@pytest.fixture(scope="module")
def served(site: Site, built: Said) -> Iterator[str]:
    """The mirror, carried and served to the nodes; the lab's own way to everything is gone."""
    assert built.code == 0, built.said
    shutil.copytree(site.built, site.carried)
    stop_mirror(lab_paths())
    words = ["mirror", "serve", str(site.carried), "--bind", BRIDGE_ADDRESS, "--port", str(PORT)]
    with (site.folder / "served.log").open("w") as log:
        serving = subprocess.Popen([str(B200), *words], stderr=log)
    url = f"http://{BRIDGE_ADDRESS}:{PORT}"
    try:
        wait_for(f"{url}/SHA256SUMS")
        yield url
    finally:
        serving.terminate()
        serving.wait()


def wait_for(url: str) -> None:
    """Return when a URL answers, whatever proxy this machine uses."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    end = time.monotonic() + 60
    while True:
        try:
            opener.open(url, timeout=5).close()
            return
        except (urllib.error.URLError, OSError):
            assert time.monotonic() < end, url
            time.sleep(0.1)


def test_plan_says_what_comes_and_from_where(site: Site) -> None:
    given = f"debian12={site.world.distribution()}"
    plan = site.world.b200("mirror", "plan", "-i", site.inventory, "--distribution", given)
    assert plan.code == 0, plan.said
    assert "packages debian12" in plan.out
    assert f"model {MODEL_NAME}" in plan.out
    assert f"{REPOSITORY}@" in plan.out
    assert f"each of {WHOLE}, {TAMPERED} downloads at most" in plan.out
    assert not site.built.exists()


@pytest.mark.long
def test_second_build_does_nothing_and_a_damaged_file_is_fetched_again(
    site: Site, built: Said
) -> None:
    assert built.code == 0, built.said
    assert site.verify(site.built).code == 0
    again = site.build()
    assert (again.code, "nothing to do" in again.out) == (0, True), again.said
    [deb] = (site.built / "apt/debian12/pool").glob("numactl_*.deb")
    deb.write_bytes(b"half")
    mended = site.build()
    assert mended.code == 0, mended.said
    assert site.verify(site.built).code == 0


def flip(path: Path) -> None:
    """One bit in the middle."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def shift(root: Path) -> None:
    """Sums that are out of date, without their own signature."""
    text = (root / "SHA256SUMS").read_text()
    (root / "SHA256SUMS").write_text(
        re.sub("(?m)^# expires .*", "# expires 2020-01-01T00:00:00Z", text)
    )


TAMPERINGS: dict[str, Callable[[Path], object]] = {
    "apt/debian12/pool/numactl_": lambda root: flip(the(root, "apt/debian12/pool/numactl_*")),
    "apt/debian12/dists/debian12/main/binary-amd64/Packages: ": lambda root: flip(
        the(root, "apt/*/dists/*/main/*/Packages")
    ),
    "wheels/vllm_stand_in": lambda root: flip(the(root, "wheels/*.whl")),
    f"models/{MODEL_NAME}/": lambda root: flip(the(root, "models/*/*/model.safetensors")),
    "v2/vendor/engine/manifests/": lambda root: flip(the(root, "v2/vendor/engine/manifests/*")),
    "wheels/index.html: missing": lambda root: (root / "wheels/index.html").unlink(),
    "apt/extra.deb: one too many": lambda root: (root / "apt/extra.deb").write_bytes(b""),
    "keys/mirror.asc: a link": lambda root: relink(root / "keys/mirror.asc"),
    "SHA256SUMS is not signed by": shift,
    "SHA256SUMS.asc is not there": lambda root: (root / "SHA256SUMS.asc").unlink(),
}


def the(root: Path, pattern: str) -> Path:
    """The one file of a pattern."""
    [path] = root.glob(pattern)
    return path


def relink(path: Path) -> None:
    """A link to a copy outside."""
    copy = path.parents[2] / "copy"
    shutil.move(path, copy)
    path.symlink_to(copy)


@pytest.mark.long
@pytest.mark.parametrize("named", TAMPERINGS)
def test_carrier_names_what_was_tampered_with(
    site: Site, built: Said, named: str, tmp_path: Path
) -> None:
    root = tmp_path / "mirror"
    shutil.copytree(site.built, root)
    TAMPERINGS[named](root)
    verified = site.verify(root)
    assert verified.code == 1
    assert named in verified.err, verified.said


@pytest.mark.long
def test_another_key_is_refused(site: Site, built: Said, tmp_path: Path) -> None:
    other = site.world.b200(
        "mirror", "key", "--to", tmp_path, "--private-key", tmp_path / "private"
    )
    assert other.code == 0
    foreign = site.world.b200(
        "mirror", "verify", site.built, "--public-key", tmp_path / "mirror.asc"
    )
    assert (foreign.code, "is not signed by" in foreign.err) == (1, True), foreign.said
    wrong = ("--to", tmp_path / "built", "--private-key", tmp_path / "private")
    refused = site.world.b200("mirror", "build", "-i", site.inventory, *wrong)
    assert (refused.code, "and the inventory pins" in refused.err) == (1, True), refused.said


@pytest.mark.long
def test_time_that_is_over_is_refused(site: Site, built: Said, tmp_path: Path) -> None:
    root = tmp_path / "mirror"
    shutil.copytree(site.built, root)
    shift(root)
    with signature.signer(site.folder / "private", site.data["source"]["fingerprint"]) as signer:
        signer.detached(root / "SHA256SUMS", root / "SHA256SUMS.asc")
    verified = site.verify(root)
    assert (verified.code, "expired on 2020-01-01" in verified.err) == (1, True), verified.said


@pytest.mark.long
def test_image_is_pulled_from_the_mirror_by_its_digest(
    site: Site, served: str, tmp_path: Path
) -> None:
    name = site.image.partition("/")[2]
    pull = ["skopeo", "copy", f"docker://{served.removeprefix('http://')}/{name}"]
    without_tls(tmp_path, served)
    done = subprocess.run(
        [*pull, f"dir:{tmp_path}/got"], env={**os.environ, "HOME": str(tmp_path)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    manifest = (tmp_path / "got/manifest.json").read_bytes()
    assert hashlib.sha256(manifest).hexdigest() == name.rpartition(":")[2]


@pytest.fixture(scope="module")
def live(site: Site, served: str) -> Outcome:
    """A run on the node that reaches the mirror alone."""
    assert on(WHOLE, f"! curl -sS -m 5 {site.world.url}") == ""
    return site.run(WHOLE)


def test_node_that_reaches_the_mirror_alone_goes_live(site: Site, live: Outcome) -> None:
    assert (live.code, live.outcome(WHOLE)) == (0, "live"), live.said[-4000:]
    again = site.run(WHOLE)
    assert (again.code, again.host(WHOLE)["changes"]) == (0, 0), again.said[-3000:]


def signed_again(site: Site, private: Path, until: str = "") -> None:
    """The carried Release signed by a key, good *until* another time if that is given."""
    release = the(site.carried, "apt/*/dists/*/Release")
    if until:
        text = release.read_text()
        release.write_text(re.sub("(?m)^Valid-Until: .*", f"Valid-Until: {until}", text))
    fingerprint = signature.make(private, private.with_name("public"))
    with signature.signer(private, fingerprint) as signer:
        signer.inline(release, release.with_name("InRelease"))


@pytest.mark.parametrize(
    ("spoil", "named"),
    [
        pytest.param(
            lambda site: signed_again(site, site.folder / "private", OVER),
            "is expired",
            id="expired",
            marks=pytest.mark.long,
        ),
        pytest.param(
            lambda site: signed_again(site, site.folder / "foreign"), "NO_PUBKEY", id="foreign"
        ),
        pytest.param(
            lambda site: flip(the(site.carried, "apt/*/dists/*/InRelease")),
            "apt on the node",
            id="InRelease",
            marks=pytest.mark.long,
        ),
        pytest.param(
            lambda site: flip(the(site.carried, "apt/*/dists/*/main/*/Packages.gz")),
            "apt on the node",
            id="Packages",
            marks=pytest.mark.long,
        ),
    ],
)
def test_node_refuses_a_repository_before_a_change(
    site: Site, served: str, spoil: Callable[[Site], None], named: str
) -> None:
    dists = site.carried / "apt/debian12/dists"
    shutil.copytree(dists, site.folder / "dists")
    spoil(site)
    refused = site.run(TAMPERED)
    shutil.rmtree(dists)
    (site.folder / "dists").rename(dists)
    described = refused.described(TAMPERED)
    assert described.startswith("failed at ready: "), described
    assert named in described
    assert refused.host(TAMPERED)["changes"] == 0


@pytest.mark.long
def test_node_refuses_what_was_tampered_with_file_by_file(site: Site, served: str) -> None:
    """Each file that was restored lets the run come to the next one.

    A fetch that is not refused while it begins is refused where it is awaited.
    """
    for pattern, stages, named in (
        ("apt/debian12/pool/numactl_*", ("host",), "numactl"),
        ("models/*/*/model.safetensors", ("weights", "model"), "model.safetensors"),
        ("wheels/*.whl", ("serving",), "stand_in"),
    ):
        path = the(site.carried, pattern)
        kept = shutil.copy2(path, site.folder)
        flip(path)
        refused = site.run(TAMPERED)
        # With its time: rsync sends a file again whose time is another.
        shutil.move(kept, path)
        described = refused.described(TAMPERED)
        assert described.startswith(tuple(f"failed at {stage}: " for stage in stages)), described
        assert named in described, (pattern, described)
    live = site.run(TAMPERED)
    assert (live.code, live.outcome(TAMPERED)) == (0, "live"), live.said[-4000:]


def next_engine(site: Site) -> dict[str, Any]:
    """The stand-in engine's next version on the package index, with its lock."""
    folder, files = site.world.home / "www/wheels", {}
    for path in sorted(STAND_IN.glob("*.py")):
        content = path.read_bytes().replace(standin.__version__.encode(), NEXT_ENGINE.encode())
        files[f"{PACKAGE}/{path.name}"] = content
    entry = {"vllm": f"{PACKAGE}.cli:main"}
    wheel = write_wheel(folder, "vllm-stand-in", NEXT_ENGINE, "The next version.", files, entry)
    lock = site.folder / "next.txt"
    lock.write_text(requirements_text([wheel], "3.11"))
    return {**site.data["engine"], "version": NEXT_ENGINE, "requirements": str(lock)}


@pytest.mark.long
def test_next_mirror_carries_the_upgrade_and_the_one_before_is_refused(
    site: Site, live: Outcome
) -> None:
    before = site.folder / "before"
    shutil.copytree(site.built, before)
    site.write(driver=NEXT_DRIVER, engine=next_engine(site))
    assert site.build().code == 0
    verify = ("mirror", "verify", "--public-key", site.key, "--after")
    older = site.world.b200(*verify, site.built, before)
    assert (older.code, "is newer" in older.err) == (1, True), older.said
    newer = site.world.b200(*verify, site.carried, site.built)
    assert newer.code == 0, newer.said
    with outside():
        ensure_host_packages(print, {"rsync": "rsync"}, {})
    carry = ["rsync", "-a", "--delete-delay", "--delay-updates", "--itemize-changes"]
    sent = subprocess.run(
        [*carry, f"{site.built}/", f"{site.carried}/"], check=True, capture_output=True, text=True
    ).stdout
    assert "models/" not in "".join(line for line in sent.splitlines() if line.startswith(">f"))
    assert site.verify(site.carried).code == 0
    upgraded = site.run(WHOLE)
    assert (upgraded.code, upgraded.outcome(WHOLE)) == (0, "live"), upgraded.said[-4000:]
    assert on(WHOLE, "cat /proc/driver/nvidia/version || true; dpkg -s nvidia-open").count(
        NEXT_DRIVER
    )
    assert lab.status()["hosts"]
