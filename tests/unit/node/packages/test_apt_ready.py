"""Before and after an installation: locks, what is unfinished, room, and the cause in one line."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from b200kit.node.facts import dpkg, system
from b200kit.node.packages import apt_ready, failure
from tests.messages import assert_message
from tests.unit.node.lib.test_apt_output import DKMS, MAKE


class Tools:
    """Answers for dpkg and apt-get, by the first words of the call."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.answers: dict[str, tuple[int, str]] = {}
        self.calls: list[str] = []
        self.packages: list[str] = [""]
        self.patch = monkeypatch
        monkeypatch.setattr(apt_ready, "call", self.call)
        monkeypatch.setattr(system, "listing", self.listing)
        monkeypatch.setattr(dpkg, "interrupted", lambda: False)
        monkeypatch.setattr(dpkg, "holder", lambda: None)

    def call(self, argv: list[str]) -> subprocess.CompletedProcess[str]:
        """Answer, and go on to the next listing of packages when dpkg did something."""
        line = " ".join(argv)
        self.calls.append(line)
        if line.startswith("dpkg") and len(self.packages) > 1:
            self.packages.pop(0)
        found = (answer for start, answer in self.answers.items() if line.startswith(start))
        code, said = next(found, (0, ""))
        return subprocess.CompletedProcess(argv, code, said, "")

    def listing(self) -> str:
        """What dpkg-query prints now."""
        return self.packages[0]


@pytest.fixture
def tools(monkeypatch: pytest.MonkeyPatch) -> Tools:
    """A machine whose packages are whole and whose locks are free."""
    return Tools(monkeypatch)


HALF = "nvidia-kernel-open-dkms\t580.126.20-1\tiF \n"
FOREIGN = "foo\t1-1\tiF \n"


def test_whole_node_costs_no_call(tools: Tools) -> None:
    assert apt_ready.ready(["--wait", "0"]) == 0
    assert tools.calls == []


def test_interrupted_dpkg_is_finished(tools: Tools) -> None:
    tools.patch.setattr(dpkg, "interrupted", lambda: True)
    assert apt_ready.ready(["--wait", "0"]) == 0
    assert tools.calls == ["dpkg --force-confold --configure -a"]


def test_package_of_ours_is_left_to_the_installation(tools: Tools) -> None:
    tools.packages = [HALF]
    assert apt_ready.ready(["--wait", "0"]) == 0
    assert tools.calls == []


def test_package_that_is_asked_for_is_ours(tools: Tools) -> None:
    tools.packages = ["haproxy\t1\tiU \n"]
    assert apt_ready.ready(["--wait", "0", "--ours", "haproxy,nvlsm"]) == 0
    assert tools.calls == []


def test_foreign_package_is_configured_if_it_can_be(tools: Tools) -> None:
    tools.packages = [FOREIGN, "foo\t1-1\tii \n"]
    assert apt_ready.ready(["--wait", "0"]) == 0


def test_foreign_package_that_cannot_be_is_refused_by_name(
    tools: Tools, capsys: pytest.CaptureFixture[str]
) -> None:
    tools.packages = [FOREIGN + HALF]
    said = "foo: no user\ndpkg: error processing package foo (--configure):\n installed foo"
    tools.answers["dpkg"] = (1, said)
    assert apt_ready.ready(["--wait", "0"]) == 1
    text = capsys.readouterr().err
    assert_message(text)
    assert "nvidia-kernel-open-dkms" not in text


def test_lock_is_waited_for_and_its_holder_named(
    tools: Tools, capsys: pytest.CaptureFixture[str]
) -> None:
    held = iter(["process 812 (apt-get upgrade)", None])
    tools.patch.setattr(dpkg, "holder", lambda: next(held))
    tools.patch.setattr(apt_ready, "POLL_S", 0)
    assert apt_ready.ready(["--wait", "60"]) == 0
    tools.patch.setattr(dpkg, "holder", lambda: "process 812 (apt-get upgrade)")
    assert apt_ready.ready(["--wait", "0"]) == 1
    assert_message(capsys.readouterr().err)


def test_broken_dependencies_are_mended_unless_others_must_go(
    tools: Tools, capsys: pytest.CaptureFixture[str]
) -> None:
    tools.answers["apt-get check"] = (100, "E: Unmet dependencies")
    tools.answers["apt-get -s -f"] = (0, "Remv nvidia-settings [1]\nInst libfoo (1 lab [amd64])")
    assert apt_ready.check([]) == 0
    assert any(call.startswith("apt-get -y -f install") for call in tools.calls)
    tools.calls.clear()
    tools.answers["apt-get -s -f"] = (0, "Remv postgresql [15]")
    assert apt_ready.check([]) == 1
    assert "would remove postgresql" in capsys.readouterr().err
    assert not any(call.startswith("apt-get -y") for call in tools.calls)


def test_packages_that_need_more_room_than_there_is_are_refused(
    tools: Tools, capsys: pytest.CaptureFixture[str]
) -> None:
    size = "Need to get 1 kB of archives.\nAfter this operation, {} of additional disk space will"
    tools.answers["apt-get install"] = (1, size.format("1 kB"))
    assert apt_ready.check(["--", "nvidia-open=1"]) == 0
    tools.answers["apt-get install"] = (1, size.format("900,000 TB"))
    assert apt_ready.check(["--", "nvidia-open=1"]) == 1
    text = capsys.readouterr().err
    assert_message(text, SIZE=re.compile(r"[\d.]+ .B(?= are free)"))


def test_download_and_installation_count_together_on_one_file_system(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(apt_ready, "ARCHIVES", str(tmp_path))
    monkeypatch.setattr(apt_ready, "PROGRAMS", str(tmp_path))
    assert apt_ready.needs(3, 4) == [(7, str(tmp_path))]
    monkeypatch.setattr(apt_ready, "ARCHIVES", "/proc")
    assert apt_ready.needs(3, 4) == [(3, "/proc"), (4, str(tmp_path))]


def test_cause_of_a_failed_build_has_the_compilers_words(tools: Tools, tmp_path: Path) -> None:
    del tools
    log = tmp_path / "dkms/nvidia/580.126.20/build/make.log"
    log.parent.mkdir(parents=True)
    log.write_text("\n".join(MAKE))
    said = [line.replace("/var/lib", str(tmp_path)) for line in DKMS]
    text = failure.why(said)
    assert "for kernel 6.1.0-30-amd64" in text
    assert "implicit declaration" in text


def test_full_file_system_is_named(tools: Tools) -> None:
    del tools
    text = failure.why(["dd: error writing '/nowhere/x.new': No space left on device", *DKMS])
    assert_message(text, SIZE=re.compile(r"\d+(\.\d+)? .?B"))


def test_holder_of_a_lock_that_was_taken_meanwhile_is_named(tools: Tools) -> None:
    tools.patch.setattr(dpkg, "holder", lambda: "process 812 (apt-get)")
    assert "process 812" in failure.why(["E: Could not get lock /var/lib/dpkg/lock-frontend."])


def test_installation_that_was_cut_short_says_so(tools: Tools) -> None:
    tools.packages = [HALF]
    killed = "E: Sub-process /usr/bin/dpkg exited unexpectedly"
    text = failure.why(["Setting up nvidia-kernel-open-dkms (580.126.20-1) ...", killed])
    assert "cut short" in text
    assert "nvidia-kernel-open-dkms (iF)" in text


def test_what_is_reported_already_and_what_apt_says_well_is_left(tools: Tools) -> None:
    del tools
    assert failure.why(["b200kit: no disk space", *DKMS]) == ""
    assert failure.why(["E: Unable to locate package nvidia-opem"]) == ""


# apt 2.6 (Debian 12) with main and non-free, 2026-11-23: install nvidia-driver.
NO_CONTRIB = """\
 nvidia-driver : PreDepends: nvidia-installer-cleanup but it is not installable
                 PreDepends: nvidia-legacy-check (>= 495) but it is not going to be installed
                 Depends: nvidia-support but it is not installable
E: Unable to correct problems, you have held broken packages.
""".splitlines()
# The form of apt 3 (as it was quoted for other packages; not run here).
NO_CONTRIB_3 = """\
E: Unable to satisfy dependencies. Reached two conflicting assignments:
   1. nvidia-open:amd64=580.126.20-1 is selected for install
   2. nvidia-open:amd64 Depends nvidia-support
      but none of the choices are installable:
      [no choices]
""".splitlines()


@pytest.mark.parametrize("lines", [NO_CONTRIB, NO_CONTRIB_3], ids=["apt 2", "apt 3"])
def test_driver_that_wants_debian_s_contrib_says_so(lines: list[str]) -> None:
    assert_message(failure.why(lines))


def test_other_missing_dependency_is_left_to_apt_s_own_line() -> None:
    assert failure.why([" a : Depends: b but it is not installable", NO_CONTRIB[-1]]) == ""
