"""A real Prometheus of Debian's scrapes a node that serves: panels have data, alerts come and go.

Engine metrics are the stand-in's; nothing here is a latency.
"""

from __future__ import annotations

import json
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

import tests.lab as lab
from b200kit.monitoring import dashboards, files
from b200kit.monitoring.targets import Member
from tests.e2e.conftest import Live
from tests.e2e.driving import Outcome, deploy, on
from tests.lab.paths import host_address
from tests.lab.supply.programs import prometheus, promtool

NODE = "b200-1"
PORT = 9464
OWN_PORT = 19090
RULES = {"interval_s": 2, "look_s": 2, "look_deadline_s": 30, "deadline_s": 120, "stall_s": 600}
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
def scraped(serving: Outcome, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Prometheus with our files, but faster: it looks every five seconds, and no alert waits.

    An answer has until the next look, and takes a process: on a busy machine more than a second.
    """
    folder = tmp_path_factory.mktemp("prometheus")
    members = [Member(NODE, host_address(NODE), "node", ("lab",), PORT, replicas=2)]
    for name, text in files.files(members).items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    config = yaml.safe_load((folder / "prometheus.yml").read_text())
    config["global"] = {"scrape_interval": "5s", "evaluation_interval": "1s"}
    del config["alerting"]
    (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
    rules = files.rules()
    for rule in (rule for group in rules["groups"] for rule in group["rules"]):
        rule.pop("for", None)
    (folder / "b200-rules.yml").write_text(yaml.safe_dump(rules))
    found = prometheus()
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(
            [
                found.path, f"--config.file={folder}/prometheus.yml",
                f"--storage.tsdb.path={folder}/data",
                f"--web.listen-address=127.0.0.1:{OWN_PORT}",
            ],
            env=dict(found.environment), stdout=log, stderr=log,
        )  # fmt: skip
        try:
            yield
        finally:
            process.terminate()
            process.wait(60)


def query(expr: str) -> list[dict[str, Any]]:
    """What Prometheus answers now."""
    at = f"http://127.0.0.1:{OWN_PORT}/api/v1/query?{urllib.parse.urlencode({'query': expr})}"
    try:
        with urllib.request.urlopen(at, timeout=20) as answer:
            found: list[dict[str, Any]] = json.load(answer)["data"]["result"]
            return found
    except OSError:
        return []


def firing() -> set[str]:
    """Alerts that fire now."""
    return {one["metric"]["alertname"] for one in query('ALERTS{alertstate="firing"}')}


def until(there: Callable[[], bool], seconds: float = 90) -> float:
    """Seconds until it is so."""
    began = time.monotonic()
    while not there():
        assert time.monotonic() < began + seconds, (firing(), page())
    return time.monotonic() - began


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


def test_every_panel_of_every_dashboard_has_data(scraped: None) -> None:
    # A smoke test of ten requests may carry no percentile.
    without = {f'b200_record_{metric}_seconds{{node="$node"}}' for metric in ("ttft", "itl")}
    asked = [expr for board in files.boards().values() for expr in dashboards.queries(board)]
    for expr in (expr for expr in asked if expr not in without):
        until(lambda expr=expr: bool(query(expr.replace("$node", NODE))))  # type: ignore[misc]
    print(f"{len(asked)} queries")


def test_a_node_that_is_well_raises_no_alarm(scraped: None) -> None:
    until(lambda: bool(query("b200_node_in_service == 1")))
    # What was true before the first scrape is taken back by the next evaluation.
    until(lambda: firing() <= USUAL)


FAULTS = [
    ("seventeen-links", "B200FabricFault"),
    ("row-remap-pending", "B200MemoryFault"),
    ("thermal-slowdown", "B200ThermalFault"),
]


@pytest.mark.parametrize(("scenario", "alert"), FAULTS)
def test_an_alert_comes_by_its_fault_and_goes_with_it(
    scraped: None, scenario: str, alert: str
) -> None:
    lab.inject(NODE, scenario)
    try:
        came = until(lambda: {alert, "B200ReplicaOut"} <= firing())
    finally:
        lab.inject(NODE, "healthy")
    went = until(lambda: not firing() - USUAL)
    print(f"{scenario}: {alert} after {came:.1f} s, gone {went:.1f} s after its mend")


def test_planned_work_is_known(scraped: None) -> None:
    program = "python3 -I /usr/local/lib/b200kit/node.pyz"
    on(NODE, f"{program} quarantine put --who test --why work")
    try:
        until(lambda: "B200NodePlanned" in firing())
    finally:
        on(NODE, f"{program} quarantine release --who test --why done")
    until(lambda: not firing() - USUAL)


def test_what_is_missing_is_an_alarm(scraped: None) -> None:
    on(NODE, "systemctl stop b200-watch.timer; rm /run/b200kit/metrics.prom")
    try:
        came = until(lambda: "B200NodeUnreachable" in firing())
        print(f"no metrics: alarm after {came:.1f} s")
    finally:
        on(NODE, "systemctl start b200-watch.timer")
    until(lambda: not firing() - USUAL)


def test_second_run_changes_nothing(serving: Outcome) -> None:
    again = deploy("b200.py", *words())
    assert again.outcome(NODE) == "live", again.described(NODE)
    assert (again.host(NODE)["changes"], again.host(NODE)["commands"]) == (0, 2)
