"""`b200 check`: one look over ssh, with a stand-in for ssh that runs the real script here."""

from __future__ import annotations

import json
import os
import shutil
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from b200kit import cli
from b200kit.run import look
from tests.messages import assert_message
from tests.unit import states

Program = Callable[[str, str], None]
# What a host's name makes it do; any other runs what it is given, as sshd has the user's shell do.
_SSH = r"""
for last; do :; done
while getopts F:TE:l:p:J: word; do case $word in E) log=$OPTARG ;; esac; done
say() { for line; do printf '%s\r\n' "$line" >> "$log"; done; exit 255; }
case "$*" in
*unknown-key*)
    say 'No ED25519 host key is known for unknown-key and you have requested strict checking.' \
        'Host key verification failed.' ;;
*other-key*)
    say '@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @' \
        'Host key verification failed.' ;;
*'-l nobody'*) say 'nobody@n01: Permission denied (publickey).' ;;
*gone*) say 'ssh: connect to host gone port 22: No route to host' ;;
*pretender*)
    echo '@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @' >&2
    echo 'Host key verification failed.' >&2; exit 255 ;;
*goodbye*)
    say 'Received disconnect from 10.0.0.9 port 22:2: REMOTE HOST IDENTIFICATION HAS CHANGED!' ;;
*nowhere*) say 'ssh: Could not resolve hostname nowhere: Name or service not known' ;;
*endless*) exec cat /dev/zero ;;
*liar*) echo '{"schema": "b200kit/node-state/9"}'; exit ;;
*garbage*) echo 'Welcome to n01'; exit ;;
*silent*) exit 3 ;;
*hung*)
    {
        until [ -e "$RELEASED" ] || [ $((n += 1)) -gt 40 ]; do sleep 0.5; done
        echo over >> "$RELEASED"
    } > /dev/null & exec sleep 60 ;;
*revoked*)
    say 'The ED25519 host key for revoked is marked as revoked.' 'Host key verification failed.' ;;
*algorithm*) say 'Unable to negotiate with 10.0.0.9 port 22: no matching host key type found.' ;;
esac
exec sh -c "$last"
"""
_PYTHON = """cat > {folder}/stdin; printf '%s\\n' "$@" > {folder}/arguments; cat {folder}/state"""


@pytest.fixture(autouse=True)
def outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Outside any site: inside one, a name is a node of its inventory."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Program:
    """Puts programs before all others on PATH."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")

    def put(name: str, script: str) -> None:
        path = folder / name
        path.write_text(f"#!/bin/sh\n{script}")
        path.chmod(0o755)

    return put


@pytest.fixture
def ssh(program: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A node behind ssh that is this machine; outside any site."""
    monkeypatch.chdir(tmp_path)
    program("ssh", _SSH)


@pytest.fixture
def node(ssh: None, program: Program, tmp_path: Path) -> Callable[[dict[str, Any]], Path]:
    """A node whose python3 answers with a state, and what it was given."""

    def answers(state: dict[str, Any]) -> Path:
        (tmp_path / "state").write_text(json.dumps(state))
        program("python3", _PYTHON.format(folder=tmp_path))
        return tmp_path

    return answers


def whole(name: str) -> dict[str, Any]:
    """A recorded state with what a node program of today reads besides."""
    state = states.ready(states.recorded(name))
    state["notes"] = {**state["notes"], "quarantine": None}
    state["dpkg"] = {"interrupted": False, "broken": {}}
    kernel = state["host"]["kernel"]
    state["driver_module"] = {"built_for": {kernel: "580.105.08"}, "default_kernel": kernel}
    return state


def check(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    """Exit code and what was printed."""
    code = cli.main(["check", *words])
    said = capsys.readouterr()
    return code, said.out, said.err


def hosts(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, dict[str, Any]]:
    """The record of each host."""
    _, out, _ = check(capsys, "--json", *words)
    found: dict[str, dict[str, Any]] = json.loads(out)["hosts"]
    return found


def test_this_machine_is_read_by_the_program_from_memory(
    ssh: None, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = check(capsys, "--json", "n01")
    found = json.loads(out)["hosts"]["n01"]
    assert (code, err, found["outcome"]) == (2, "", "unmeasured"), found.get("error")
    assert found["state"]["schema"] == "b200kit/node-state/1"
    assert "could not start" not in json.dumps(found["state"]["nvml"])
    here = next(iter(hosts(capsys, "--local").values()))["state"]
    assert here["host"]["boot_id"] == found["state"]["host"]["boot_id"]


@pytest.mark.parametrize(("name", "code"), [("healthy-hgx-b200", 0), ("gpu2-no-nvlink", 1)])
def test_node_is_recognised_and_judged(
    node: Callable[[dict[str, Any]], Path],
    capsys: pytest.CaptureFixture[str],
    name: str,
    code: int,
) -> None:
    node(whole(name))
    assert check(capsys, "root@n01")[0] == code
    found = hosts(capsys, "root@n01")["root@n01"]
    assert found["expectation"]["hardware"]["name"] == "hgx-b200"
    node(whole(name))
    lines = [line for line in check(capsys, "root@n01")[1].splitlines() if "NVn" not in line]
    assert_message("\n".join([*(line for line in lines if "as hgx-b200" in line), lines[-1]]))
    assert any("GPU7" in line for line in lines)


def test_each_bad_host_is_one_line_and_costs_the_others_nothing(
    node: Callable[[dict[str, Any]], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    node(whole("healthy-hgx-b200"))
    causes = {
        "unknown-key": "host-key-unknown",
        "other-key": "host-key-changed",
        "revoked": "host-key-revoked",
        "nobody@n01": "key-refused",
        "gone": "no-answer",
        "nowhere": "name-unresolved",
    }
    bad = [*causes, "algorithm", "endless", "liar", "garbage", "silent", "pretender", "goodbye"]
    code, out, _ = check(capsys, "--json", "n01", *bad)
    found = json.loads(out)["hosts"]
    assert (code, found["n01"]["outcome"]) == (1, "fit")
    for name in bad:
        assert_message(f"{name}: {found[name]['outcome']}: {found[name]['error']}")
        assert found[name].get("cause") == causes.get(name)


def test_node_that_does_not_answer_is_given_up(
    ssh: None, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Also where a child of ssh keeps stderr open."""
    released, before = tmp_path / "released", set(threading.enumerate())
    raised: list[object] = []
    monkeypatch.setenv("RELEASED", str(released))
    monkeypatch.setattr(look, "_LIMIT_S", 0.3)
    monkeypatch.setattr(look, "_END_S", 0.1)
    monkeypatch.setattr(threading, "excepthook", raised.append)
    assert_message(hosts(capsys, "hung")["hung"]["error"])
    assert not released.exists()
    released.touch()
    for thread in set(threading.enumerate()) - before:
        thread.join()
    assert raised == []


def test_unknown_hardware_is_not_measured(
    node: Callable[[dict[str, Any]], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    state = whole("healthy-hgx-b200")
    for gpu in state["pci"]["gpus"]:
        gpu["device"] = "ffff"
    node(state)
    found = hosts(capsys, "n01")["n01"]
    assert found["outcome"] == "unmeasured"
    assert_message(found["error"])


def test_node_without_a_driver_is_bare(
    node: Callable[[dict[str, Any]], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    node(states.bare())
    code, out, _ = check(capsys, "n01")
    assert code == 3
    assert_message(out)
    assert "unknown" not in out
    found = hosts(capsys, "n01")["n01"]
    assert found["outcome"] == "bare"


def test_page_has_the_picture(
    node: Callable[[dict[str, Any]], Path], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    node(whole("healthy-hgx-b200"))
    page = tmp_path / "page.html"
    assert check(capsys, "n01", "--page", str(page))[0] == 0
    assert "<svg" in page.read_text()


_ORDINARY = 'case "$1" in -u) echo 1000 ;; *) echo ops ;; esac'
# sudo as Debian's: reads the password from stdin, one line an attempt.
_ASKS = r"""
case "$1" in -n) echo 'sudo: a password is required' >&2; exit 1 ;; esac
IFS= read -r given; [ "$given" = 'open sesame' ] || exit 1
shift 4; exec "$@"
"""
_LETS_IN = r"""shift; exec "$@" """


def test_user_with_sudo_needs_no_option(
    node: Callable[[dict[str, Any]], Path], program: Program, capsys: pytest.CaptureFixture[str]
) -> None:
    program("id", _ORDINARY)
    program("sudo", _LETS_IN)
    node(whole("healthy-hgx-b200"))
    assert check(capsys, "ops@n01")[0] == 0


def test_password_is_asked_for_and_shown_nowhere(
    node: Callable[[dict[str, Any]], Path],
    program: Program,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    program("id", _ORDINARY)
    program("sudo", _ASKS)
    folder = node(whole("healthy-hgx-b200"))
    assert_message(hosts(capsys, "ops@n01")["ops@n01"]["error"])
    monkeypatch.setattr("getpass.getpass", lambda prompt: "open sesame")
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    code, out, err = check(capsys, "-K", "--json", "ops@n01")
    assert code == 0, out
    assert "sesame" not in out + err + (folder / "arguments").read_text()
    monkeypatch.setattr("getpass.getpass", lambda prompt: "wrong")
    assert_message(hosts(capsys, "-K", "ops@n01")["ops@n01"]["error"])


@pytest.mark.parametrize("name", ["no-sudo", "no-python", "old-python"])
def test_what_the_node_lacks_is_one_line(
    ssh: None,
    program: Program,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
) -> None:
    if name == "no-sudo":
        program("id", _ORDINARY)
    if name == "old-python":
        program(
            "python3",
            f'shift 3; exec {sys.executable} -c "import sys; sys.version_info = (3, 9, 2); $1"',
        )
    for tool in ("sh", "id", "cat", *(["python3"] if name == "no-sudo" else [])):
        if not (tmp_path / "bin" / tool).exists():
            (tmp_path / "bin" / tool).symlink_to(str(shutil.which(tool)))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    assert_message(hosts(capsys, "n01")["n01"]["error"])


@pytest.mark.parametrize(
    "words",
    [[], ["--local", "n01"], ["-oProxyCommand=x"], ["a b"], ["n01", "--hardware", "b300"],
     ["n01", "-F", "/no/such"], ["$(id)"], ["n01", "--page", "/no/such/page.html"]],
    ids=["nothing", "both", "option", "blank", "hardware", "config", "shell", "page"],
)  # fmt: skip
def test_request_that_cannot_be_met_is_refused(
    ssh: None, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    code, out, err = check(capsys, *words)
    assert (code, out, err.count("\n")) == (64, "", 1)
