"""The data this checkout ships: hardware, models and settings, by name. Read once a process."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import yaml

from deploy import hardware
from deploy.core import settings
from deploy.core.settings import Setting
from deploy.core.spec import Catalogue, Hardware, Model

ROOT = Path(__file__).resolve().parents[1]
_SETTINGS = Path(__file__).resolve().parent / "settings.yaml"
_MODELS = Path(__file__).resolve().parent / "models"


@cache
def load() -> Catalogue:
    """Every known hardware and model."""
    machines = {name: _hardware(name, hardware.load(name)) for name in hardware.names()}
    models = {path.stem: _model(path) for path in sorted(_MODELS.glob("*.yaml"))}
    return Catalogue(hardware=machines, models=models, settings=_settings())


def _settings() -> dict[str, Setting]:
    return settings.table(yaml.safe_load(_SETTINGS.read_text(encoding="utf-8")))


def settings_elsewhere() -> dict[str, dict[str, str]]:
    """What other stages set and other checks judge: stage, check and how, by what it is."""
    return dict(yaml.safe_load(_SETTINGS.read_text(encoding="utf-8"))["elsewhere"])


def _hardware(name: str, document: dict[str, Any]) -> Hardware:
    expect = document["expect"]
    return Hardware(
        name=name,
        gpu_count=expect["gpu_count"]["value"],
        minimum_driver=expect["minimum_driver"]["value"],
    )


def _model(path: Path) -> Model:
    document = yaml.safe_load(path.read_text())
    return Model(
        name=path.stem,
        source=document["source"],
        flags=tuple(sorted((document.get("flags") or {}).items())),
    )
