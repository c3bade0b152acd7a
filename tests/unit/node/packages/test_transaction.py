"""Before and after an installation: locks, what is unfinished, room, and the cause in one line."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from b200kit.node.facts import dpkg, system
from b200kit.node.lib import installed
from b200kit.node.lib.apt import Apt, AptFailed
from b200kit.node.lib.documents import unstructure
from b200kit.node.packages import failure, transaction
from b200kit.node.packages.transaction import PackageTransaction
from b200kit.node.state.drift import Package
from tests.messages import assert_message
from tests.unit.node.lib.test_apt_output import DKMS, MAKE


class Tools:
    """Answers for dpkg and apt, by the first words of the call, without the options of all."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
        self.answers: dict[str, tuple[bool, str]] = {}
        self.calls: list[str] = []
        self.packages: list[str] = [""]
        self.patch = monkeypatch
        self.record, self.log = folder / "state/packages.json", folder / "log"
        monkeypatch.setattr(Apt, "attempt", self.attempt)
        monkeypatch.setattr(Apt, "act", self.act)
        monkeypatch.setattr(system, "listing", lambda: self.packages[0])
        monkeypatch.setattr(dpkg, "interrupted", lambda: False)
        monkeypatch.setattr(dpkg, "holder", lambda: None)
        monkeypatch.setattr(transaction, "LOG", self.log)
        monkeypatch.setattr(transaction, "LISTS", folder)
        monkeypatch.setattr(transaction.remember, "__defaults__", (self.record,))
        monkeypatch.setattr(installed, "LIST", folder / "installed.json")
        monkeypatch.setattr(installed.read, "__defaults__", (folder / "installed.json",))

    def attempt(self, *words: str) -> tuple[bool, list[str]]:
        """Answer, and go on to the next listing of packages when dpkg did something."""
        line = " ".join(words)
        self.calls.append(line)
        if line.startswith("dpkg") and len(self.packages) > 1:
            self.packages.pop(0)
        found = (answer for part, answer in self.answers.items() if part in line)
        done, said = next(found, (True, ""))
        return done, said.splitlines()

    def act(self, *words: str) -> None:
        """As the real one: what it says goes into the log."""
        done, lines = self.attempt(*words)
        self.log.write_text("\n".join(lines))
        if not done:
            raise AptFailed("")

    def run(self, act: str, *packages: Package, **more: Any) -> int:
        """The node's command."""
        asked = PackageTransaction(packages, **{"wait_s": 0, **more})
        return transaction.main([act, json.dumps(unstructure(asked))])


@pytest.fixture
def tools(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Tools:
    """A machine whose packages are whole and whose locks are free."""
    return Tools(monkeypatch, tmp_path)


HALF = "nvidia-kernel-open-dkms\t580.126.20-1\tiF \n"
FOREIGN = "foo\t1-1\tiF \n"


def test_whole_node_costs_no_call(tools: Tools) -> None:
    assert tools.run("finish") == 0
    assert tools.calls == []


def test_interrupted_dpkg_is_finished(tools: Tools) -> None:
    tools.patch.setattr(dpkg, "interrupted", lambda: True)
    assert tools.run("finish") == 0
    assert tools.calls == ["dpkg --configure -a"]


def test_package_of_ours_is_left_to_the_installation(tools: Tools) -> None:
    tools.packages = [HALF]
    assert tools.run("finish") == 0
    assert tools.calls == []


def test_package_that_is_asked_for_is_ours(tools: Tools) -> None:
    tools.packages = ["haproxy\t1\tiU \n"]
    assert tools.run("finish", ours=("haproxy", "nvlsm")) == 0
    assert tools.calls == []


def test_foreign_package_is_configured_if_it_can_be(tools: Tools) -> None:
    tools.packages = [FOREIGN, "foo\t1-1\tii \n"]
    assert tools.run("finish") == 0


def test_foreign_package_that_cannot_be_is_refused_by_name(
    tools: Tools, capsys: pytest.CaptureFixture[str]
) -> None:
    tools.packages = [FOREIGN + HALF]
    said = "foo: no user\ndpkg: error processing package foo (--configure):\n installed foo"
    tools.answers["dpkg"] = (False, said)
    assert tools.run("finish") == 1
    text = capsys.readouterr().err
    assert_message(text)
    assert "nvidia-kernel-open-dkms" not in text


def test_lock_is_waited_for_and_its_holder_named(
    tools: Tools, capsys: pytest.CaptureFixture[str]
) -> None:
    held = iter(["process 812 (apt-get upgrade)", None])
    tools.patch.setattr(dpkg, "holder", lambda: next(held))
    tools.patch.setattr(transaction, "POLL_S", 0)
    assert tools.run("finish", wait_s=60) == 0
    tools.patch.setattr(dpkg, "holder", lambda: "process 812 (apt-get upgrade)")
    assert tools.run("finish") == 1
    assert_message(capsys.readouterr().err)


NVLSM = Package("nvlsm", "2025.10.11", hold=True)
POLICY = """\
nvlsm:
  Version table:
     2025.10.11-1 500
        500 http://mirror/vendor ./ Packages
"""
LACKING = (Package("libnvsdm", "580.126.20", optional=True), Package("linux-h", optional=True))


@pytest.fixture
def offering(tools: Tools) -> Tools:
    """apt has one package, and the repositories of two."""
    tools.answers["policy"] = (True, POLICY)
    tools.answers["indextargets"] = (
        True,
        "http://mirror/vendor/\nhttp://mirror/vendor/\nfile:/o/\n",
    )
    return tools


def missing(tools: Tools) -> dict[str, Any]:
    """What the record holds."""
    kept: dict[str, Any] = json.loads(tools.record.read_text())["missing"]
    return kept


def test_one_transaction_has_its_steps_in_order_and_says_what_is_left_out(
    offering: Tools, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is left out is in no word for apt and is kept in a record, with who was asked."""
    offering.answers["--simulate"] = (True, "Inst nvlsm (2025.10.11-1 x)\nInst libibumad3 (1 x)")
    assert offering.run("install", NVLSM, *LACKING, absent=("old",)) == 0
    order = ["update", "policy", "check", "--download-only", "--simulate", "-y install", "hold"]
    at = [next(n for n, call in enumerate(offering.calls) if word in call) for word in order]
    assert at == sorted(at)
    whole = next(call for call in offering.calls if "-y install" in call)
    assert whole.endswith(" nvlsm=2025.10.11-1 old-")
    assert offering.calls[-1] == "apt-mark hold nvlsm"
    answer = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert answer == {"missing": ["libnvsdm=580.126.20", "linux-h"]}
    assert [*missing(offering)] == answer["missing"]
    assert missing(offering)["linux-h"]["sources"] == ["http://mirror/vendor/", "file:/o/"]
    [noted] = installed.read().packages
    assert noted.new == ("nvlsm", "libibumad3")


def test_fetching_installs_and_holds_nothing(offering: Tools) -> None:
    assert offering.run("install", NVLSM, fetch_only=True) == 0
    assert offering.calls[-1].startswith("apt-get -y install ")
    assert " --download-only " in offering.calls[-1]


def test_required_package_that_is_lacking_ends_it_with_one_line(
    offering: Tools, capsys: pytest.CaptureFixture[str]
) -> None:
    assert offering.run("install", NVLSM, Package("nvlsm", "2026.1"), Package("no-such")) == 1
    assert_message(capsys.readouterr().err)
    assert not any("install" in call for call in offering.calls)


@pytest.mark.parametrize("content", ["", "[]", "{", '{"missing": 3}', '{"missing": {"nvlsm": {}}}'])
def test_record_is_renewed_and_one_that_cannot_be_read_begins_again(
    offering: Tools, content: str
) -> None:
    offering.record.parent.mkdir()
    offering.record.write_text(content)
    assert offering.run("install", Package("nvlsm"), LACKING[0]) == 0
    assert [*missing(offering)] == ["libnvsdm=580.126.20"]


def test_offer_has_the_versions_and_what_is_there(
    offering: Tools, capsys: pytest.CaptureFixture[str]
) -> None:
    offering.answers["policy"] = (True, "a:\n     2 500\n *** 1 100\nb:\n     3 500\n")
    assert offering.run("offer", Package("a"), Package("b")) == 0
    answer = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert answer == {"versions": {"a": ["2", "1"], "b": ["3"]}, "installed": ["a"]}


def test_broken_dependencies_are_mended_unless_others_must_go(
    offering: Tools, capsys: pytest.CaptureFixture[str]
) -> None:
    offering.answers["apt-get check"] = (False, "E: Unmet dependencies")
    steps = "Remv nvidia-settings [1]\nInst libfoo (1 lab [amd64])"
    offering.answers["--fix-broken"] = (True, steps)
    assert offering.run("install", NVLSM) == 0
    assert any("-y" in call and "--fix-broken" in call for call in offering.calls)
    offering.calls.clear()
    offering.answers["--fix-broken"] = (True, "Remv postgresql [15]")
    assert offering.run("install", NVLSM) == 1
    assert "would remove postgresql" in capsys.readouterr().err
    assert not any("-y" in call for call in offering.calls)


def test_packages_that_need_more_room_than_there_is_are_refused(
    offering: Tools, capsys: pytest.CaptureFixture[str]
) -> None:
    size = "Need to get 1 kB of archives.\nAfter this operation, {} of additional disk space will"
    offering.answers["--assume-no"] = (False, size.format("1 kB"))
    assert offering.run("install", NVLSM) == 0
    capsys.readouterr()
    offering.answers["--assume-no"] = (False, size.format("900,000 TB"))
    assert offering.run("install", NVLSM) == 1
    text = capsys.readouterr().err
    assert_message(text, SIZE=re.compile(r"[\d.]+ .B(?= are free)"))


@pytest.mark.parametrize(("archives", "needed"), [("/", 7), ("/proc", 4)])
def test_download_and_installation_count_together_on_one_file_system(
    tools: Tools, tmp_path: Path, archives: str, needed: int
) -> None:
    there = str(tmp_path)
    tools.patch.setattr(transaction, "PROGRAMS", there)
    tools.patch.setattr(transaction, "ARCHIVES", f"{there}/x" if archives == "/" else archives)
    tools.patch.setattr(transaction, "room", lambda path: (9, needed if path == there else 9))
    size = "Need to get 3 B of archives.\nAfter this operation, 4 B of additional disk space will"
    tools.answers["--assume-no"] = (False, size)
    transaction.look_at_room(Apt(), ())
    tools.patch.setattr(transaction, "room", lambda path: (9, needed - 1 if path == there else 9))
    with pytest.raises(transaction.NotReady):
        transaction.look_at_room(Apt(), ())


@pytest.mark.parametrize(
    ("log", "said"),
    [
        ("E: Unable to locate package nvidia-opem", ""),
        ("E: Could not get lock /var/lib/dpkg/lock-frontend.", "process 812"),
    ],
)
def test_program_that_fails_is_explained_where_its_own_words_do_not(
    offering: Tools, capsys: pytest.CaptureFixture[str], log: str, said: str
) -> None:
    held = iter([None])
    offering.patch.setattr(dpkg, "holder", lambda: next(held, "process 812 (apt-get)"))
    offering.answers["-y install"] = (False, log)
    assert offering.run("install", NVLSM) == 1
    err = capsys.readouterr().err
    assert said in err
    assert bool(err) == bool(said)


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


def test_what_apt_says_well_is_left(tools: Tools) -> None:
    del tools
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
