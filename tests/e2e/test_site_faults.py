"""Faults of the site: each stops every node at its stage with the cause; a re-run completes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import tests.lab as lab
from tests.e2e.conftest import Boot
from tests.e2e.driving import Outcome, deploy, on
from tests.lab.paths import mirror_url

pytestmark = pytest.mark.long

NODE = "b200-1"
OTHER_LIST = "/etc/apt/sources.list.d/cuda.sources"
OTHER_KEY = "/usr/share/keyrings/cuda-archive-keyring.gpg"


@pytest.fixture(scope="module")
def node(boot: Boot) -> Iterator[str]:
    """A fresh node; the site is put right afterwards."""
    boot("healthy")
    yield NODE
    lab.publish_vendor()


@pytest.fixture(scope="module")
def two_lists(node: str) -> tuple[Outcome, str, str]:
    """What ready.py says of a list of an image for the same repository, and the node around it."""
    source = (
        f"Types: deb\\nURIs: {mirror_url()}/apt/vendor/\\nSuites: ./\\nSigned-By: {OTHER_KEY}\\n"
    )
    on(node, f"printf '{source}' > {OTHER_LIST}")
    before, asked, after = snapshot(), deploy("ready.py"), snapshot()
    on(node, f"rm {OTHER_LIST}")
    return asked, before, after


def snapshot() -> str:
    """A digest of what a deployment would write on the node."""
    trees = "/etc /var/lib/apt /var/lib/dpkg /usr/local"
    return on(NODE, f"find {trees} -type f -exec sha256sum {{}} + | sort | sha256sum")


def test_other_list_is_named_before_a_change(two_lists: tuple[Outcome, str, str]) -> None:
    asked, before, after = two_lists
    assert (asked.code, asked.outcome(NODE)) == (1, "not ready"), asked.said[-3000:]
    error = asked.host(NODE)["error"]
    assert "Conflicting values set for option Signed-By" in error
    assert after == before


@pytest.fixture(scope="module")
def signed_by_another(node: str, two_lists: object) -> Outcome:
    """The vendor's repository signed by a key nobody pinned."""
    lab.publish_vendor(key="other")
    return deploy()


@pytest.fixture(scope="module")
def package_missing(signed_by_another: Outcome) -> Outcome:
    """The repository is signed right again, but lacks the container toolkit."""
    lab.publish_vendor(leave_out=["nvidia-container-toolkit"])
    return deploy()


@pytest.fixture(scope="module")
def no_room(package_missing: Outcome) -> Outcome:
    """The repository is whole; there is no room for the engine on the node."""
    lab.publish_vendor()
    lab.small_disk(NODE, "/opt/vllm", 4)
    return deploy()


def test_repository_of_another_key_is_refused(signed_by_another: Outcome) -> None:
    record = signed_by_another.host(NODE)
    assert signed_by_another.code == 1
    assert (record["outcome"], record["stage"]) == ("failed", "ready"), record["error"]
    assert "NO_PUBKEY" in record["error"] or "not signed" in record["error"], record["error"]


def test_package_that_is_not_there_is_named(package_missing: Outcome) -> None:
    record = package_missing.host(NODE)
    assert package_missing.code == 1
    assert (record["outcome"], record["stage"]) == ("failed", "ready"), record["error"]
    assert "nvidia-container-toolkit" in record["error"]


def test_node_without_room_says_so(no_room: Outcome) -> None:
    record = no_room.host(NODE)
    assert no_room.code == 1
    assert (record["outcome"], record["stage"]) == ("failed", "serving"), record["error"]
    assert "no disk space: " in record["error"]


def test_rerun_after_the_causes_are_gone_completes(no_room: Outcome) -> None:
    lab.large_disk(NODE, "/opt/vllm")
    again = deploy()
    assert again.code == 0, again.said[-3000:]
    assert again.outcome(NODE) == "live"
