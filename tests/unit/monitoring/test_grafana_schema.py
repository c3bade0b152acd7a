"""The dashboards against Grafana's own schema, as its published types for Python have it.

The types drop a key they do not know and take a value of any kind: so what they write again is
compared with what they read, and every value with the type that is declared for it.
"""

from __future__ import annotations

import json
import typing
from collections.abc import Callable, Iterator
from copy import deepcopy
from enum import Enum
from typing import Any

import pytest
from grafana_foundation_sdk.cog import plugins
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.runtime import Runtime
from grafana_foundation_sdk.models import units
from grafana_foundation_sdk.models.dashboard import Dashboard

from b200kit.monitoring import files

plugins.register_default_plugins()
BOARDS = files.boards()
UNITS = {value for name, value in vars(units).items() if not name.startswith("_")}


def problems(board: dict[str, Any]) -> list[str]:
    """What of a dashboard Grafana's schema does not have."""
    read = Dashboard.from_json(board)
    written = json.loads(json.dumps(read, cls=JSONEncoder))
    return [*_dropped(board, written, "board"), *_misfits(read, "board"), *_unnamed(board)]


def _unnamed(board: dict[str, Any]) -> Iterator[str]:
    """Kinds of panel and units are plain strings to the schema; each is one that Grafana has."""
    for panel in board["panels"]:
        if Runtime().panelcfg_config(panel["type"]) is None:
            yield f"panel {panel['id']}: no kind {panel['type']}"
        if panel["fieldConfig"]["defaults"]["unit"] not in UNITS:
            yield f"panel {panel['id']}: no unit {panel['fieldConfig']['defaults']['unit']}"


def _dropped(given: Any, written: Any, at: str) -> Iterator[str]:
    if isinstance(given, dict) and isinstance(written, dict):
        for key, value in given.items():
            if key not in written:
                yield f"{at}.{key}: unknown"
            else:
                yield from _dropped(value, written[key], f"{at}.{key}")
    elif isinstance(given, list) and isinstance(written, list) and len(given) == len(written):
        for number, (value, again) in enumerate(zip(given, written, strict=True)):
            yield from _dropped(value, again, f"{at}[{number}]")
    elif given != written:
        yield f"{at}: {given!r} became {written!r}"


def _misfits(value: Any, at: str) -> Iterator[str]:
    """Attributes that are not of the type their class declares, all the way down."""
    if isinstance(value, list):
        for number, item in enumerate(value):
            yield from _misfits(item, f"{at}[{number}]")
    elif hasattr(value, "to_json"):
        for name, hint in typing.get_type_hints(type(value)).items():
            own = getattr(value, name)
            if not _fits(own, hint):
                yield f"{at}.{name}: {own!r} is no {hint}"
            yield from _misfits(own, f"{at}.{name}")


def _fits(value: Any, hint: Any) -> bool:
    origin, parts = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Union:
        return any(_fits(value, part) for part in parts)
    if origin is typing.Literal:
        return value in parts
    if origin is list:
        return isinstance(value, list) and all(_fits(item, parts[0]) for item in value)
    if origin is dict:
        return isinstance(value, dict) and all(_fits(item, parts[1]) for item in value.values())
    if isinstance(hint, type) and issubclass(hint, Enum):
        return value in {choice.value for choice in hint}
    if hint in (int, float):
        return isinstance(value, hint | int) and not isinstance(value, bool)
    return hint is typing.Any or isinstance(value, hint)


@pytest.mark.parametrize("name", BOARDS)
def test_a_dashboard_is_what_grafana_s_schema_says(name: str) -> None:
    assert problems(BOARDS[name]) == []


def panel(board: dict[str, Any]) -> Any:
    """The first panel."""
    return board["panels"][0]


FAULTS: dict[str, Callable[[dict[str, Any]], object]] = {
    "a key of the dashboard": lambda b: b.update(refreshEvery="30s"),
    "a key of a panel": lambda b: panel(b).update(datasources={}),
    "a key of a query": lambda b: panel(b)["targets"][0].update(expression="up"),
    "a key of a place": lambda b: panel(b)["gridPos"].update(width=6),
    "a number as text": lambda b: panel(b)["gridPos"].update(w="6"),
    "a text as number": lambda b: b.update(title=7),
    "a version as text": lambda b: b.update(schemaVersion="39"),
    "a list as text": lambda b: b.update(tags="b200kit"),
    "a choice that is none": lambda b: panel(b)["targets"][0].update(format="timeseries"),
    "a number that is no choice": lambda b: b["templating"]["list"][0].update(hide=7),
    "a kind of panel": lambda b: panel(b).update(type="graphs"),
    "a unit": lambda b: panel(b)["fieldConfig"]["defaults"].update(unit="gigaparsec"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_what_grafana_does_not_have_is_found(fault: str) -> None:
    board = deepcopy(BOARDS["fleet"])
    FAULTS[fault](board)
    assert len(problems(board)) == 1
