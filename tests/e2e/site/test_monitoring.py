"""A real Prometheus and Alertmanager over a node that serves: panels have data, alerts come and go.

Engine metrics are the stand-in's; nothing here is a latency.
"""

from __future__ import annotations

import json
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tests.lab as lab
from b200kit.monitoring import dashboards, files
from b200kit.monitoring.targets import MonitoredNode
from tests.e2e.conftest import Live
from tests.e2e.driving import Outcome, deploy, on
from tests.e2e.tools.watching import Watched
from tests.lab.paths import host_address
from tests.lab.supply.programs import promtool
from tests.prometheus import Monitoring, Sent, monitoring, until

pytestmark = pytest.mark.long

NODE = "b200-1"
PORT = 9464
RULES = {
    "interval_s": 2,
    "health_check_s": 2,
    "health_check_deadline_s": 30,
    "deadline_s": 120,
    "stall_s": 600,
}
KEYS: dict[str, Any] = {
    "gateway_bind": "0.0.0.0",
    "gateway": {"tls": "off"},
    "monitoring": {"from": ["10.77.0.0/24"], "port": PORT},
    "watchdog": RULES,
}
_STREAMS = Path(__file__).parents[1] / "tools" / "streams.py"


def words() -> list[str]:
    """The inventory's keys of this module as arguments."""
    given = {k: v if isinstance(v, str) else json.dumps(v) for k, v in KEYS.items()}
    return [word for key, value in given.items() for word in ("--data", f"{key}={value}")]


@pytest.fixture(scope="module")
def serving(live: Live) -> Iterator[Outcome]:
    """A node that serves, offers its metrics, and has a few streams."""
    live(1)
    outcome = deploy("b200.py", *words())
    assert outcome.code == 0, outcome.said[-3000:]
    lab.run(NODE, ["sh", "-c", f"cat > /run/streams.py <<'END'\n{_STREAMS.read_text()}\nEND"])
    paths = "/usr/local/lib/b200kit/node.pyz /etc/b200kit/serving.json"
    on(NODE, f"systemd-run -q -u load python3 /run/streams.py {paths} 2 20 /run/load.json")
    yield outcome
    on(NODE, "touch /run/load.stop; systemctl stop load")


def page(path: str = "/metrics") -> str:
    """What the node's endpoint answers."""
    with urllib.request.urlopen(f"http://{host_address(NODE)}:{PORT}{path}", timeout=20) as found:
        text: str = found.read().decode()
        return text


@pytest.fixture(scope="module")
def scraped(serving: Outcome, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Monitoring]:
    """Read every five seconds: an answer takes a process, on a busy machine more than a second."""
    member = MonitoredNode(NODE, host_address(NODE), "node", ("lab",), PORT, replicas=2)
    with monitoring(tmp_path_factory.mktemp("prometheus"), [member], "5s") as found:
        yield found


# True of every lab node: nothing proves it, and a stand-in's latency is that of this busy machine.
USUAL = {
    *("B200ProofAbsent", "B200LatencyNotCompared", "B200OtherFault"),
    *("B200TtftSlow", "B200ItlSlow"),
}


def test_the_nodes_page_is_what_prometheus_tool_calls_sound(serving: Outcome) -> None:
    found = promtool()
    done = subprocess.run(
        [found.path, "check", "metrics"],
        env=dict(found.environment), input=page(), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr, done.stdout) == (0, "", "")


def test_every_panel_of_every_dashboard_has_data(scraped: Monitoring) -> None:
    # A smoke test of ten requests may carry no percentile; this node has no sink and no proof.
    without = {f'b200_record_{metric}_seconds{{node="$node"}}' for metric in ("ttft", "itl")}
    without |= {"b200_share_percent", "b200_events_waiting", "b200_events_dropped_total"}
    asked = [expr for board in files.boards().values() for expr in dashboards.queries(board)]
    for expr in (expr.replace("$node", NODE) for expr in asked if expr not in without):
        until(lambda expr=expr: bool(scraped.query(expr)), said=lambda expr=expr: expr)  # type: ignore[misc]
    print(f"{len(asked)} queries")


def is_quiet(scraped: Monitoring) -> None:
    """Wait until nothing fires but what is usual here."""
    until(lambda: scraped.firing() <= USUAL, said=lambda: (scraped.firing(), page()))


def test_a_node_that_is_well_raises_no_alarm(scraped: Monitoring) -> None:
    until(lambda: bool(scraped.query("b200_node_in_service == 1")))
    # What was true before the first scrape is taken back by the next evaluation.
    is_quiet(scraped)


FAULTS = [
    ("seventeen-links", "B200FabricFault"),
    ("row-remap-pending", "B200MemoryFault"),
    ("thermal-slowdown", "B200ThermalFault"),
]


@pytest.mark.parametrize(("scenario", "alert"), FAULTS)
def test_a_person_hears_of_a_fault_and_of_its_end(
    scraped: Monitoring, scenario: str, alert: str
) -> None:
    begins = {Sent("b200-page", name, "firing") for name in (alert, "B200ReplicaOut")}
    before = len(scraped.sent)
    lab.inject(NODE, scenario)
    try:
        came = until(lambda: begins <= {*scraped.sent[before:]}, said=scraped.firing)
    finally:
        lab.inject(NODE, "healthy")
    ends = {one._replace(status="resolved") for one in begins}
    went = until(lambda: ends <= {*scraped.sent[before:]}, said=scraped.firing)
    is_quiet(scraped)
    print(f"{scenario}: {alert} after {came:.1f} s, gone {went:.1f} s after its mend")


def test_planned_work_pages_nobody_whatever_it_does_to_the_node(scraped: Monitoring) -> None:
    program = "python3 -I /usr/local/lib/b200kit/node.pyz"
    before = len(scraped.sent)
    on(NODE, f"{program} quarantine put --who test --why work")
    try:
        until(lambda: "B200NodePlanned" in scraped.firing(), said=scraped.firing)
        lab.inject(NODE, "seventeen-links")
        Watched(NODE).wait_for_looks(3)
    finally:
        lab.inject(NODE, "healthy")
        Watched(NODE).wait_for_looks(3)
        on(NODE, f"{program} quarantine release --who test --why done")
    is_quiet(scraped)
    paged = {one.alert for one in scraped.sent[before:] if one.receiver == "b200-page"}
    assert paged <= USUAL


def test_what_is_missing_is_an_alarm(scraped: Monitoring) -> None:
    on(NODE, "systemctl stop b200-status.socket b200-status.service")
    try:
        came = until(lambda: "B200NodeUnreachable" in scraped.firing(), said=scraped.firing)
        print(f"no metrics: alarm after {came:.1f} s")
    finally:
        on(NODE, "systemctl start b200-status.socket")
    is_quiet(scraped)


def test_second_run_changes_nothing(serving: Outcome) -> None:
    again = deploy("b200.py", *words())
    assert again.outcome(NODE) == "live", again.described(NODE)
    assert (again.host(NODE)["changes"], again.host(NODE)["commands"]) == (0, 2)
