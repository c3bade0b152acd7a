"""What a node says of itself comes into files that are executed: nothing but known words does."""

from __future__ import annotations

from typing import Any

import pytest

from b200kit.run.login import Login
from b200kit.site import look
from b200kit.site.look import NotUsable
from b200kit.site.plan import PinnedHost, SeenNode
from tests.unit.site.nodes import key

RELEASE = {"id": "debian", "version_id": "12", "pretty": "Debian 12"}


def described(**host: Any) -> SeenNode:
    """A node that says this of itself."""
    state = {"host": {"os": RELEASE, "arch": "x86_64", **host}, "pci": {"gpus": [{}, {}]}}
    way, pin = Login("n01.example.internal", "root"), PinnedHost("n01", (key("1"),), "compared")
    return look.described("n01", way, [pin], state, "hgx-b200")


@pytest.mark.parametrize(
    "kernel", ["6.1.0-31-cloud-amd64", "6.12.41+deb13-amd64", "6.18.44-fc-v669"]
)
def test_kernel_is_taken_as_it_is(kernel: str) -> None:
    seen = described(kernel=kernel)
    assert (seen.kernel, seen.system, seen.gpus) == (kernel, "debian12", "2 GPUs of hgx-b200")


@pytest.mark.parametrize(
    "kernel", ["6.1\nimport os", "6.1; reboot", "$(reboot)", "-6", "", "6" * 99, 6, None]
)
def test_anything_else_is_no_kernel(kernel: Any) -> None:
    with pytest.raises(NotUsable):
        described(kernel=kernel)


def test_system_that_is_not_supported_is_refused() -> None:
    with pytest.raises(NotUsable):
        described(kernel="6.1.0", os={"id": "fedora", "version_id": "43", "pretty": "Fedora 43"})
