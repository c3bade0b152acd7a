"""Every dashboard's query, and alerts that come and go, on a real Prometheus.

It scrapes a real HAProxy before two engines that give the stand-in's metrics, and pages of the node
that are made here; tests/e2e/site/test_monitoring.py has a node that serves.
"""

from __future__ import annotations

import json
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from b200kit.monitoring import dashboards, files
from b200kit.monitoring.targets import Member
from b200kit.node.metrics import command, exposition
from b200kit.node.metrics.families import families
from b200kit.node.state.watch import Fault
from tests.lab.standin.engine import Metrics
from tests.lab.supply.programs import prometheus
from tests.unit.gateway import test_metrics as endpoints
from tests.unit.gateway.proxy import free_port
from tests.unit.node.metrics import test_families as nodes

WELL = {"index": 0, "temperature_c": 40, "power_usage_mw": 7, "sm_clock_mhz": 9}
GPUS = [{**WELL, "ecc_volatile_uncorrected": 0}]
# Nobody asks the endpoint here: a share of no requests is nothing.
WITHOUT_REQUESTS = "http_responses_total"


class Engine(endpoints.Engine):
    """An engine that has answered one request more at every scrape."""

    counts = Metrics("m")

    def do_GET(self) -> None:
        """Its metrics, whatever is asked."""
        for name in ("time_to_first_token_seconds", "inter_token_latency_seconds"):
            self.counts.observe(name, 0.03)
        body = self.counts.text().encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@dataclass
class Monitored:
    """A Prometheus that scrapes a node, and the page of that node."""

    url: str
    page: Path

    def tell(self, *faults: Fault) -> None:
        """Write the node's page, of this moment."""
        now = time.time()
        last = {"at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now))}
        standings = {str(n): {**nodes.standing(), "last": last} for n in (0, 1)}
        if faults:
            standings["0"] = nodes.standing(out=True, held=faults[0].finding.summary)
        look = nodes.looked(gpus=GPUS, faults=[fault.to_json() for fault in faults])
        verdict = {"taken_at": nodes.AT}
        known = nodes.known(watch=look, watchdog=standings, verdict=verdict)
        proof = {**nodes.PROOF, "valid_until": "2099-01-01T00:00:00Z"}
        self.page.write_text(exposition.text(families(replace(known, now=now, proof=proof))))

    def query(self, expr: str) -> list[dict[str, Any]]:
        """What Prometheus answers now."""
        at = f"{self.url}/api/v1/query?{urllib.parse.urlencode({'query': expr})}"
        try:
            with urllib.request.urlopen(at, timeout=10) as answer:
                found: list[dict[str, Any]] = json.load(answer)["data"]["result"]
                return found
        except OSError:
            return []

    def firing(self) -> set[str]:
        """Alerts that fire now."""
        found = self.query('ALERTS{alertstate="firing"}')
        return {one["metric"]["alertname"] for one in found}


@pytest.fixture(scope="module")
def monitored(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Monitored]:
    """Scraped every second, and no alert waits."""
    folder = tmp_path_factory.mktemp("panels")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(command, "FILE", folder / "metrics.prom")
        patch.setattr(endpoints, "Engine", Engine)
        for node in endpoints.serving(folder, ("127.0.0.0/8",)):
            with scraped(folder, node.port) as url:
                found = Monitored(url, folder / "metrics.prom")
                found.tell()
                yield found


def write(folder: Path, port: int) -> None:
    """Our files for a Prometheus that looks at one node every second, and no alert waits."""
    for name, text in files.files(
        [Member("n01", "127.0.0.1", "node", (), port, replicas=2)]
    ).items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    config = yaml.safe_load((folder / "prometheus.yml").read_text())
    config["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
    rules = files.rules()
    for rule in (rule for group in rules["groups"] for rule in group["rules"]):
        rule.pop("for", None)
    (folder / "b200-rules.yml").write_text(yaml.safe_dump(rules))


@contextmanager
def scraped(folder: Path, target: int) -> Iterator[str]:
    """Prometheus with our files and the targets of one node; its URL."""
    write(folder, target)
    found, port = prometheus(), free_port()
    words = [f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data",
             f"--web.listen-address=127.0.0.1:{port}"]  # fmt: skip
    process = subprocess.Popen(
        [found.path, *words],
        env=dict(found.environment), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(60)


def until(there: Callable[[], bool], seconds: float = 60) -> None:
    """Wait until it is so."""
    end = time.monotonic() + seconds
    while not there():
        assert time.monotonic() < end
        time.sleep(0.2)


def test_every_panel_of_every_dashboard_has_data(monitored: Monitored) -> None:
    asked = [expr for board in files.boards().values() for expr in dashboards.queries(board)]
    for expr in (e.replace("$node", "n01") for e in asked if WITHOUT_REQUESTS not in e):
        until(lambda expr=expr: bool(monitored.query(expr)))  # type: ignore[misc]


def test_alerts_come_with_a_fault_and_go_with_it(monitored: Monitored) -> None:
    monitored.tell()
    until(lambda: bool(monitored.query("b200_node_in_service == 1")) and not monitored.firing())
    monitored.tell(Fault(nodes.LINK, (0,), nodes.AT, ("fault",), confirmed=True))
    until(lambda: monitored.firing() == {"B200FabricFault", "B200ReplicaOut"})
    monitored.tell()
    until(lambda: not monitored.firing())


def test_what_is_missing_is_an_alarm(monitored: Monitored) -> None:
    monitored.page.unlink()
    until(lambda: monitored.firing() == {"B200NodeUnreachable"})
    monitored.tell()
    until(lambda: not monitored.firing())
