"""The alerts, by Prometheus' own promtool: each fires by its fault alone, and ends with it.

Every comparison, label, join and delay of every alert is changed in turn, and its test must see it.
"""

from __future__ import annotations

import copy
import re
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import yaml

from b200kit.monitoring import files
from b200kit.node.checks.judge import registered
from tests.lab.supply.programs import amtool, promtool

ROOT = Path(__file__).resolve().parents[3]
CASES: dict[str, dict[str, Any]] = yaml.load(
    (ROOT / "tests/data/monitoring/alerts.yaml").read_text(), yaml.CSafeLoader
)
Rule = dict[str, Any]


def alerts() -> dict[str, Rule]:
    """Every alert by name."""
    rules = [rule for group in files.rules()["groups"] for rule in group["rules"]]
    return {rule["alert"]: rule for rule in rules if "alert" in rule}


ALERTS = alerts()


def tool(*words: str) -> subprocess.CompletedProcess[str]:
    """Run promtool."""
    found = promtool()
    return subprocess.run(
        [found.path, *words],
        env=dict(found.environment), capture_output=True, text=True, check=False,
    )  # fmt: skip


def holds(name: str, rule: Rule, folder: Path) -> bool:
    """Whether a rule does what its case says. Sentences are not compared: their figures change."""
    folder.mkdir()
    bare = {key: value for key, value in rule.items() if key != "annotations"}
    rules = {"groups": [{"name": "one", "rules": [bare]}]}
    (folder / "rules.yml").write_text(yaml.safe_dump(rules))
    (folder / "test.yml").write_text(yaml.safe_dump(document(name, CASES[name], ALERTS[name])))
    return tool("test", "rules", str(folder / "test.yml")).returncode == 0


def document(name: str, case: dict[str, Any], rule: Rule) -> dict[str, Any]:
    """A case in promtool's form."""
    firing = [{"exp_labels": {**case["labels"], **rule["labels"]}}]
    times = {case.get("not_yet"): [], case["fires"]: firing, case["over"]: []}
    checks = [
        {"eval_time": at, "alertname": name, "exp_alerts": expected}
        for at, expected in times.items()
        if at
    ]
    series = [{"series": s, "values": values} for s, values in case["series"].items()]
    test = {"interval": "1m", "input_series": series, "alert_rule_test": checks}
    return {"rule_files": ["rules.yml"], "evaluation_interval": "1m", "tests": [test]}


_NUMBER = re.compile(r"(?<=[=><] )\d+(?:\.\d+)?")
# Also what label_replace is given.
_LABEL = re.compile(r'(?<=[=~])"[^"]+"|(?<=, )"[^"]+"')
_JOINS = (("absent(", "count("), (" unless ", " and "), ("> on", "< on"))


def mutants(rule: Rule) -> Iterator[tuple[str, Rule]]:
    """The rule with one thing changed: a threshold, a label, a join, its delay."""
    expr = rule["expr"]
    for at in _NUMBER.finditer(expr):
        changed = f"{expr[: at.start()]}{float(at[0]) * 1000 + 7}{expr[at.end() :]}"
        yield f"threshold {at[0]}", {**rule, "expr": changed}
    for at in _LABEL.finditer(expr):
        yield f"label {at[0]}", {**rule, "expr": f'{expr[: at.start()]}"x"{expr[at.end() :]}'}
    for old, new in _JOINS:
        if old in expr:
            yield f"join {old}", {**rule, "expr": expr.replace(old, new, 1)}
    if "for" in rule:
        yield "delay", {key: value for key, value in rule.items() if key != "for"}


def test_every_alert_has_a_case() -> None:
    assert set(CASES) == set(ALERTS)


@pytest.mark.one_in(10)
@pytest.mark.parametrize("name", CASES)
def test_an_alert_fires_by_its_fault_and_ends_with_it(name: str, tmp_path: Path) -> None:
    assert holds(name, ALERTS[name], tmp_path / "rule")


@pytest.mark.process
def test_whatever_is_changed_in_a_rule_its_case_sees_it(tmp_path: Path) -> None:
    every = [(name, *one) for name, rule in ALERTS.items() for one in mutants(copy.deepcopy(rule))]

    def survives(number: int) -> bool:
        name, _, rule = every[number]
        return holds(name, rule, tmp_path / str(number))

    with ThreadPoolExecutor(2) as pool:
        alive = [*pool.map(survives, range(len(every)))]
    print(f"{len(every)} changes")
    assert [every[n][:2] for n, one in enumerate(alive) if one] == []


def test_prometheus_and_alertmanager_take_the_files(tmp_path: Path) -> None:
    for name, text in files.files([]).items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    said = tool("check", "config", str(tmp_path / "prometheus.yml"))
    assert said.returncode == 0, said.stderr + said.stdout
    found = amtool()
    done = subprocess.run(
        [found.path, "check-config", str(tmp_path / "alertmanager.yml")],
        env=dict(found.environment), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_every_alert_has_a_section_with_a_command() -> None:
    page = (ROOT / "docs/runbook.md").read_text()
    sections = dict(re.findall(r"^## (\S+)\n(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL))
    assert {*ALERTS} == {*sections}
    assert [name for name, text in sections.items() if not re.search(r"^    \S", text, re.M)] == []


def test_every_check_is_in_exactly_one_alert() -> None:
    named = [re.findall(r'group=~"([^"]+)"', rule["expr"]) for rule in ALERTS.values()]
    groups = [word for found in named for text in found for word in text.split("|")]
    (others,) = re.findall(r'group!~"([^"]+)"', ALERTS["B200OtherFault"]["expr"])
    assert sorted(groups) == sorted(others.split("|"))
    assert {*groups} <= {check.partition(".")[0] for check in registered()}


def test_every_alert_says_which_node_it_is_about() -> None:
    silent = [n for n, rule in ALERTS.items() if "{{ $labels.node }}" not in str(rule)]
    assert silent == ["B200NoTargets"]
    assert {rule["labels"]["severity"] for rule in ALERTS.values()} == {"page", "ticket", "planned"}
