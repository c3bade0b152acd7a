"""Whether each sandbox line of the units holds, asked by an act that it must forbid.

The act succeeds in a unit without such lines, else it proves nothing; it fails in one with that
line alone, and in one with all lines of the unit. Acts and lines: tests/data/sandbox-acts.yaml.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence

import pytest

from tests.e2e.conftest import Boot
from tests.e2e.driving import on
from tests.e2e.tools import sandbox
from tests.e2e.tools.sandbox import FORBIDS, Line

NODE = "b200-1"
UNITS = sandbox.templates()
LINES = sorted({line for lines in UNITS.values() for line in lines if line.act}, key=str)
# Whose own lines name no user: HAProxy's workers give root's rights up themselves.
WORKERS = {"gateway.conf": ["User=games"]}
# What the acts need. The device is that of TUN: real, and in no list of what a unit needs.
GIVEN = """
mkdir -p /opt/acts /run/acts/free /usr/lib/modules/acts
chmod 1777 /run/acts/free
touch /tmp/acts /root/acts /opt/acts/of-1234
chown 1234 /opt/acts/of-1234
install -m 4755 /usr/bin/id /opt/acts/setuid-id
mknod /dev/acts-device c 10 200
test -e /dev/kmsg || mknod /dev/kmsg c 1 11
"""
Could = dict[str, set[str]]


def put(path: str, text: str) -> None:
    """Write a file on the node."""
    on(NODE, f"echo {base64.b64encode(text.encode()).decode()} | base64 -d > {path}")


def tried(units: Mapping[str, tuple[Sequence[str], Sequence[str]]]) -> Could:
    """Units (sandbox lines and acts) to the acts that succeeded, all started at once."""
    files = {name: sandbox.unit(name, *content) for name, content in units.items()}
    script = "".join(
        f"cat > /run/systemd/system/{name}.service <<'END'\n{text}\nEND\n"
        for name, text in files.items()
    )
    put("/run/acts/start", f"{script}systemctl daemon-reload\nsystemctl start {' '.join(files)}\n")
    on(NODE, "sh /run/acts/start 2>&1 || true")
    said = {name: on(NODE, f"cat /run/acts/{name}").splitlines() for name in units}
    ended = [name for name, lines in said.items() if lines[-1:] != ["end"]]
    assert ended == [], {name: said[name] for name in ended}
    return {
        name: {line[6:] for line in lines if line.startswith("could ") and _stays(name, line[6:])}
        for name, lines in said.items()
    }


def _stays(unit: str, act: str) -> bool:
    after = FORBIDS[act].get("after")
    return not after or on(NODE, f"export U={unit}; {after} && echo yes; true") == "yes"


@pytest.fixture(scope="module")
def node(boot: Boot) -> None:
    """A bare node, with what the acts need."""
    boot("healthy")
    on(NODE, GIVEN)
    put(sandbox.TRY, sandbox.PROGRAM)
    put("/opt/acts/acts.json", json.dumps(FORBIDS))


@pytest.fixture(scope="module")
def without(node: None) -> set[str]:
    """The acts that succeed where no line forbids any."""
    alone = [act for act in FORBIDS if "beside" in FORBIDS[act]]
    plain = [act for act in FORBIDS if act not in alone]
    units = {f"acts-of-{n}": (FORBIDS[act]["beside"], [act]) for n, act in enumerate(alone)}
    return set().union(*tried({"acts": ([], plain), **units}).values())


@pytest.fixture(scope="module")
def with_it(node: None, without: set[str]) -> Could:
    """Each line, the only one of a unit, to the acts that succeed; only its own is tried."""
    units = {f"acts-with-{n}": (_alone(line), [str(line.act)]) for n, line in enumerate(LINES)}
    found = tried(units)
    return {line.text: found[f"acts-with-{n}"] for n, line in enumerate(LINES)}


@pytest.fixture(scope="module")
def whole(node: None, without: set[str]) -> Could:
    """Template to the acts that succeed between all of its lines, of those that it must forbid."""
    units = {
        f"acts-{n}": (
            [*map(_known, lines), *WORKERS.get(name, [])],
            [x.act for x in lines if x.act],
        )
        for n, (name, lines) in enumerate(UNITS.items())
    }
    found = tried(units)
    return {name: found[f"acts-{n}"] for n, name in enumerate(UNITS)}


def _alone(line: Line) -> list[str]:
    return [*FORBIDS[str(line.act)].get("beside", []), _known(line)]


def _known(line: Line) -> str:
    """A bare node has no user vllm."""
    return "User=games" if line.directive == "User" else line.text


def test_act_succeeds_where_nothing_forbids_it(without: set[str]) -> None:
    assert {*FORBIDS} - without == set(), on(NODE, "grep ^not /run/acts/acts /run/acts/acts-of-*")


@pytest.mark.parametrize("line", [line.text for line in LINES])
def test_line_alone_forbids_its_act(with_it: Could, line: str) -> None:
    assert with_it[line] == set()


@pytest.mark.parametrize("template", UNITS)
def test_unit_forbids_the_acts_of_all_of_its_lines(whole: Could, template: str) -> None:
    assert whole[template] == set()
