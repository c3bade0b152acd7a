"""A real Prometheus and Alertmanager of Debian's with our files, made quick: no alert waits.

What a person would be sent goes to a server of this process, one path a receiver.
"""

from __future__ import annotations

import json
import subprocess
import threading
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from b200kit.monitoring import files
from b200kit.monitoring.targets import MonitoredNode
from tests.lab.supply import programs
from tests.unit.gateway.proxy import free_port

TARGETS = "b200-targets.json"
NOBODY = "b200-nobody"
"""The receiver of what is planned; it has no address with us, either."""


class Sent(NamedTuple):
    """One alert of one message: who got it, and whether it began or ended."""

    receiver: str
    alert: str
    status: str


@dataclass(frozen=True)
class Monitoring:
    """A Prometheus by its URL, its Alertmanager by its own, and every message so far."""

    prometheus: str
    alertmanager: str
    folder: Path
    sent: list[Sent] = field(default_factory=list)

    def query(self, expr: str) -> list[dict[str, Any]]:
        """What Prometheus answers now; nothing while it does not."""
        at = f"{self.prometheus}/api/v1/query?{urllib.parse.urlencode({'query': expr})}"
        found: list[dict[str, Any]] = (_asked(at) or {"data": {"result": []}})["data"]["result"]
        return found

    def firing(self) -> set[str]:
        """Alerts that fire now, by Prometheus."""
        found = self.query('ALERTS{alertstate="firing"}')
        return {one["metric"]["alertname"] for one in found}

    def held_back(self) -> set[str]:
        """Alerts that Alertmanager has and sends to nobody, as another one covers them."""
        every = _asked(f"{self.alertmanager}/api/v2/alerts") or []
        return {one["labels"]["alertname"] for one in every if one["status"]["inhibitedBy"]}


def until(
    there: Callable[[], bool], seconds: float = 90, said: Callable[[], object] = str
) -> float:
    """Seconds until it is so; *said* explains a failure."""
    began = time.monotonic()
    while not there():
        assert time.monotonic() < began + seconds, said()
        time.sleep(0.1)
    return time.monotonic() - began


@contextmanager
def monitoring(folder: Path, members: Sequence[MonitoredNode], scrape: str) -> Iterator[Monitoring]:
    """Both, over these nodes, which are read and judged once in *scrape*."""
    ports = [free_port() for _ in range(2)]
    own, managers = (f"127.0.0.1:{port}" for port in ports)
    _write(folder, members, scrape, managers)
    found = Monitoring(f"http://{own}", f"http://{managers}", folder)
    with _receivers(folder / "alertmanager.yml", found.sent):
        words = [
            f"--config.file={folder}/alertmanager.yml", f"--storage.path={folder}/alerts",
            f"--web.listen-address={managers}", "--cluster.listen-address=",
        ]  # fmt: skip
        with running(programs.alertmanager(), words, folder / "alertmanager.log"):
            until(lambda: _asked(f"{found.alertmanager}/api/v2/alerts") is not None)
            words = [
                f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data",
                f"--web.listen-address={own}",
            ]  # fmt: skip
            with running(programs.prometheus(), words, folder / "prometheus.log"):
                yield found


def _write(folder: Path, members: Sequence[MonitoredNode], scrape: str, managers: str) -> None:
    """Our files, with nothing changed but how long each of them waits."""
    for name, text in files.files(members).items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    config = yaml.safe_load((folder / "prometheus.yml").read_text())
    config["global"] = {"scrape_interval": scrape, "evaluation_interval": scrape}
    config["alerting"]["alertmanagers"][0]["static_configs"][0]["targets"] = [managers]
    (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
    rules = files.rules()
    for rule in (rule for group in rules["groups"] for rule in group["rules"]):
        rule.pop("for", None)
    (folder / "b200-rules.yml").write_text(yaml.safe_dump(rules))
    routes = yaml.safe_load((folder / "alertmanager.yml").read_text())
    routes["route"] |= {"group_wait": "0s", "group_interval": "200ms"}
    (folder / "alertmanager.yml").write_text(yaml.safe_dump(routes))


@contextmanager
def _receivers(config: Path, sent: list[Sent]) -> Iterator[None]:
    """A server here is every receiver's webhook."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            for one in body["alerts"]:
                sent.append(Sent(self.path[1:], one["labels"]["alertname"], one["status"]))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    given = yaml.safe_load(config.read_text())
    for one in (one for one in given["receivers"] if one["name"] != NOBODY):
        url = f"http://127.0.0.1:{server.server_port}/{one['name']}"
        one["webhook_configs"] = [{"url": url, "send_resolved": True}]
    config.write_text(yaml.safe_dump(given))
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()


@contextmanager
def running(found: programs.Program, words: Sequence[str], log: Path) -> Iterator[None]:
    with log.open("w") as out:
        process = subprocess.Popen(
            [found.path, *words], env=dict(found.environment), stdout=out, stderr=out
        )
        try:
            yield
        finally:
            process.terminate()
            process.wait(60)


def _asked(url: str) -> Any:
    """What is answered, None while nobody does."""
    try:
        with urllib.request.urlopen(url, timeout=20) as answer:
            return json.load(answer)
    except OSError:
        return None
