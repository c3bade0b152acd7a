"""What apt offers is read from `apt-cache policy`; the distribution's builds are never chosen."""

from __future__ import annotations

import pytest

from b200kit.node.lib.apt_output import Offer, offers
from b200kit.node.packages.candidates import choose
from b200kit.node.state.drift import Package
from tests.messages import assert_message

# From apt 2.6 over a vendor's repository and an archive of origin Ubuntu with our preferences.
POLICY = """\
nvidia-fabricmanager:
  Installed: 580.95.05-1
  Candidate: 580.126.20-1
  Version table:
     599.0.0-0ubuntu0.24.04.1 -1
        500 file:/srv/u ./ Packages
     590.48.01-1 500
        500 file:/srv/v ./ Packages
     580.126.20-1 1001
        500 file:/srv/v ./ Packages
     580.126.20-0ubuntu0.24.04.1 -1
        500 file:/srv/u ./ Packages
 *** 580.95.05-1 100
        100 /var/lib/dpkg/status
nvidia-fabricmanager-580:
  Installed: (none)
  Candidate: (none)
  Version table:
     580.126.20-0ubuntu0.24.04.1 -1
        500 file:/srv/u ./ Packages
datacenter-gpu-manager-4-core:
  Installed: (none)
  Candidate: 1:4.4.1-1
  Version table:
     1:4.4.1-1 500
        500 file:/srv/v ./ Packages
a-virtual-package:
  Installed: (none)
  Candidate: (none)
  Version table:
"""
SOURCES = ["http://mirror/vendor/", "http://mirror/os/"]


def chosen(*packages: Package) -> tuple[str, ...]:
    """The words for apt-get."""
    choice = choose(packages, offers(POLICY), SOURCES)
    assert choice.problems == ()
    return choice.words


def problem(wanted: Package) -> str:
    """The one line of what is required and missing."""
    [text] = choose([wanted], offers(POLICY), SOURCES).problems
    return text


def test_version_table_is_read_with_its_priorities() -> None:
    offered = offers(POLICY)
    first, *_, last = offered["nvidia-fabricmanager"]
    assert first == Offer("599.0.0-0ubuntu0.24.04.1", -1, sources=("file:/srv/u",))
    assert last == Offer("580.95.05-1", 100, installed=True)
    assert offered["a-virtual-package"] == []


def test_exact_version_of_the_vendor_is_named() -> None:
    wanted = Package("nvidia-fabricmanager", "580.126.20")
    assert chosen(wanted) == ("nvidia-fabricmanager=580.126.20-1",)


def test_epoch_is_added() -> None:
    wanted = Package("datacenter-gpu-manager-4-core", "4.4.1")
    assert chosen(wanted) == ("datacenter-gpu-manager-4-core=1:4.4.1-1",)


def test_any_version_is_left_to_apt() -> None:
    assert chosen(Package("nvidia-fabricmanager")) == ("nvidia-fabricmanager",)


def test_build_that_the_preferences_keep_out_is_none() -> None:
    text = problem(Package("nvidia-fabricmanager-580", "580.126.20"))
    assert_message(text)


def test_lacking_version_is_told_with_those_there_are() -> None:
    text = problem(Package("nvidia-fabricmanager", "580.159.03"))
    assert_message(text)


def test_unknown_package_is_told_with_the_repositories_asked() -> None:
    assert problem(Package("nvlsm")) == "apt has no nvlsm; asked: " + ", ".join(SOURCES)


@pytest.mark.parametrize("name", ["nvlsm", "a-virtual-package", "nvidia-fabricmanager-580"])
def test_optional_package_that_is_lacking_is_left_out(name: str) -> None:
    wanted = Package(name, optional=True)
    choice = choose([wanted], offers(POLICY), SOURCES)
    assert choice.words == choice.problems == ()
    assert choice.missing == (wanted,)
