"""A node that serves real vLLM is changed and hurt under load, and loses what it must alone."""

from __future__ import annotations

import base64
import json
import time
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import SHORT_SMOKE
from tests.e2e.driving import Outcome, deploy, on
from tests.e2e.tools import streams

pytestmark = pytest.mark.real_engine

NODE = "b200-1"
PROGRAM = "/usr/local/lib/b200kit/node.pyz"
SERVING = "/etc/b200kit/serving.json"
UNITS = ("vllm@0.service", "vllm@1.service")
STREAMS, TOKENS = 6, 150
RATE = 5
# Out of rotation on purpose, as opposed to "DOWN".
ASIDE = ("MAINT", "DRAIN")
# Monotonic microseconds of a unit's last stop, last start and last becoming active.
TIMES = ("ActiveExitTimestampMonotonic", "ActiveEnterTimestampMonotonic")
CLIENT = """
import json, sys, urllib.error, urllib.request
path, key = sys.argv[1:]
fields = {"Authorization": "Bearer " + key} if key else {}
try:
    asked = urllib.request.Request("http://127.0.0.1:8000" + path, headers=fields)
    print(urllib.request.urlopen(asked, timeout=120).status)
except urllib.error.HTTPError as refused:
    print(refused.code, json.load(refused)["error"]["code"])
"""


def data(folder: Path, **changes: Any) -> list[str]:
    """What the inventory says otherwise, as arguments; one client more, with a rate."""
    key = folder / "limited"
    key.write_text("limited-key\n")
    client = {"name": "limited", "key": {"file": str(key)}, "requests_per_minute": RATE}
    given = {"gateway": {"clients": [client]}, **changes}
    words = [w for name, value in given.items() for w in ("--data", f"{name}={json.dumps(value)}")]
    return [*words, *SHORT_SMOKE]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """For keys."""
    return tmp_path_factory.mktemp("keys")


@pytest.fixture(scope="module")
def served(real: Outcome, folder: Path) -> Outcome:
    """A node with real vLLM, two replicas."""
    outcome = deploy("b200.py", *data(folder))
    assert outcome.code == 0, outcome.said[-4000:]
    put("/opt/streams.py", Path(streams.__file__).read_bytes())
    put("/opt/client.py", CLIENT.encode())
    return outcome


def put(path: str, content: bytes) -> None:
    """Write a file on the node."""
    on(NODE, f"echo {base64.b64encode(content).decode()} | base64 -d > {path}")


class Load:
    """Streams through the gateway, from the node itself."""

    def __init__(self, name: str) -> None:
        self.result = f"/run/{name}.json"
        self.base = f"/run/{name}"
        on(
            NODE,
            f"rm -f {self.base}.*; systemd-run --quiet --collect python3 -I /opt/streams.py "
            f"{PROGRAM} {SERVING} {STREAMS} {TOKENS} {self.result}",
        )
        self.wait_for_more()

    def wait_for_more(self, streams: int = 2 * STREAMS) -> None:
        """Return when so many more streams have ended."""
        before = self._count()
        end = time.monotonic() + 600
        while self._count() < before + streams:
            assert time.monotonic() < end, "no stream ends any more"
            time.sleep(0.2)

    def _count(self) -> int:
        return int(on(NODE, f"cat {self.base}.count 2>/dev/null || echo 0"))

    def end(self) -> list[dict[str, Any]]:
        """Every stream of this load."""
        waiting = f"while ! test -e {self.result}; do sleep 0.1; done"
        on(NODE, f"touch {self.base}.stop; timeout 99 sh -c '{waiting}'")
        found: list[dict[str, Any]] = json.loads(on(NODE, f"cat {self.result}"))
        return found


def times(unit: str) -> tuple[int, int]:
    """When a unit last began to stop and last became active."""
    values = on(NODE, f"systemctl show {unit} -p {','.join(TIMES)}").splitlines()
    known = dict(line.split("=") for line in values)
    return int(known[TIMES[0]] or 0), int(known[TIMES[1]])


def rotation() -> list[str]:
    """Each server's status at the gateway, by its first word."""
    script = (
        f"import sys; sys.path.insert(0, '{PROGRAM}'); "
        "from b200kit.node.serving.gateway import haproxy; "
        "print(' '.join(s.status.split()[0] for s in haproxy.servers()))"
    )
    return on(NODE, f'python3 -I -c "{script}"').split()


def asked(path: str, key: str = "") -> str:
    """What the gateway says."""
    return on(NODE, f"python3 -I /opt/client.py {path} '{key}'")


@pytest.fixture(scope="module")
def changed(served: Outcome, folder: Path) -> tuple[Outcome, list[dict[str, Any]]]:
    """Every replica gets another configuration, under load."""
    load = Load("change")
    outcome = deploy("b200.py", *data(folder, max_num_seqs=6))
    return outcome, load.end()


def test_change_of_all_replicas_under_load_loses_no_stream(
    changed: tuple[Outcome, list[dict[str, Any]]],
) -> None:
    outcome, streams = changed
    assert outcome.code == 0, outcome.said[-4000:]
    assert [entry for entry in streams if entry["error"]] == []
    assert {entry["tokens"] for entry in streams} == {TOKENS}
    [warm] = [stage for stage in outcome.host(NODE)["stages"] if stage["name"] == "warm-up"]
    assert warm["changes"] == [f"restart {unit}" for unit in UNITS]
    # Streams ran all the while: some ended while either replica was away.
    assert len(streams) > 10 * STREAMS
    now, up = on(NODE, "date +%s.%N; cut -d' ' -f1 /proc/uptime").split()
    booted = float(now) - float(up)
    for unit in UNITS:
        away, back = (booted + at / 1e6 for at in times(unit))
        assert [entry for entry in streams if away < entry["ended"] < back], unit


def test_replicas_were_restarted_one_after_the_other(
    changed: tuple[Outcome, list[dict[str, Any]]],
) -> None:
    (first_stop, first_warm), (second_stop, second_warm) = map(times, UNITS)
    assert first_stop < first_warm < second_stop < second_warm
    assert rotation() == ["UP", "UP"]


def test_second_run_changes_nothing(
    changed: tuple[Outcome, list[dict[str, Any]]], folder: Path
) -> None:
    again = deploy("b200.py", *data(folder, max_num_seqs=6))
    record = again.host(NODE)
    assert (again.code, record["changes"], record["commands"]) == (0, 0, 2), record["stages"]


def test_paths_keys_and_rates_are_refused(changed: object) -> None:
    assert asked("/metrics") == "403 path_not_served"
    assert asked("/v1/models") == "401 invalid_api_key"
    assert asked("/v1/models", "wrong") == "401 invalid_api_key"
    said = [asked("/v1/models", "limited-key") for _ in range(RATE + 2)]
    assert said == ["200"] * RATE + ["429 rate_limit_exceeded"] * 2
    # Brackets, so that the search does not find itself.
    shown = "cat /proc/[0-9]*/cmdline /proc/[0-9]*/environ | grep -ac 'limited-ke[y]'"
    assert on(NODE, shown) == "0"


def test_drained_replica_stays_drained_over_a_reload(changed: object) -> None:
    script = (
        f"import sys; sys.path.insert(0, '{PROGRAM}'); "
        "from b200kit.node.serving.gateway import haproxy; "
        "haproxy.set_state('vllm1', sys.argv[1])"
    )
    on(NODE, f'python3 -I -c "{script}" drain')
    newest = "pgrep -u haproxy -n haproxy"
    on(NODE, f"old=$({newest}); systemctl reload haproxy.service; "
             f"timeout 99 sh -c 'while test $({newest}) = '$old'; do sleep 0.1; done'")  # fmt: skip
    assert rotation() == ["UP", "DRAIN"]
    on(NODE, f'python3 -I -c "{script}" ready')
    assert rotation() == ["UP", "UP"]


def test_configuration_that_haproxy_refuses_never_takes_the_place_of_the_running_one(
    changed: object,
) -> None:
    """As a hand that edits it finds out; ours is tried before it is written."""
    config = "/etc/haproxy/haproxy.cfg"
    on(NODE, f"cp -p {config} /run/kept.cfg; echo nonsense >> {config}")
    refused = on(NODE, "systemctl reload haproxy.service 2>/dev/null; echo $?")
    on(NODE, f"cp -p /run/kept.cfg {config}")
    assert refused != "0"
    assert asked("/v1/models") == "401 invalid_api_key"


@pytest.fixture(scope="module")
def killed(changed: object) -> tuple[float, list[dict[str, Any]]]:
    """One replica's main process is killed under load; waited for until it is back."""
    load = Load("kill")
    moment = float(on(NODE, "kill -9 $(systemctl show -P MainPID vllm@0.service); date +%s.%N"))
    seen = [rotation()]
    end = time.monotonic() + 800
    while seen[-1] != ["UP", "UP"] or not any(first in ASIDE for first, _ in seen):
        assert time.monotonic() < end, seen
        assert all(second == "UP" for _, second in seen)
        seen.append(rotation())
    load.wait_for_more()
    return moment, load.end()


def test_killed_replica_costs_its_open_streams_and_no_other(
    killed: tuple[float, list[dict[str, Any]]],
) -> None:
    moment, streams = killed
    lost = [entry for entry in streams if entry["error"]]
    assert all(entry["sent"] < moment for entry in lost), (moment, lost)
    assert 0 < len(lost) < STREAMS, lost
    assert len([entry for entry in streams if entry["sent"] > moment]) > 10 * STREAMS


def test_killed_replica_comes_back_warm(killed: tuple[float, list[dict[str, Any]]]) -> None:
    """Its unit is active again, which means warm, and it was out of rotation until then."""
    assert on(NODE, "systemctl is-active vllm@0.service") == "active"
    record = json.loads(on(NODE, "cat /var/lib/b200kit/warm-0.json"))
    assert record["warm"] is True
    assert str(record["main_pid"]) == on(NODE, "systemctl show -P MainPID vllm@0.service")
