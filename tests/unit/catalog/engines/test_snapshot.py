"""The list of an engine's flags is what its own argument parser says."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Literal

import pytest
import yaml
from pydantic import BaseModel, Field

from b200kit.catalog import engines
from b200kit.catalog.engines import snapshot
from b200kit.engines.flags import version
from tests.messages import assert_message


class OnOff(argparse.BooleanOptionalAction):
    """As vLLM 0.33 does: `--no-x` works and is not shown, `--disable-x` stands for `--enable-x`."""

    negative_option_strings = ("--no-enable-cache", "--disable-cache")


def size(text: str) -> int:
    """4096 or 4k."""
    return int(text[:-1]) * 1000 if text.endswith("k") else int(text)


@pytest.fixture
def parser() -> argparse.ArgumentParser:
    """A flag of every sort."""
    made = argparse.ArgumentParser()
    made.add_argument("--seats", "-s", type=int)
    made.add_argument("--length", type=size)
    made.add_argument("--share", "--part", type=float)
    made.add_argument("--rules", type=json.loads)
    made.add_argument("--name")
    made.add_argument("--mode", choices=["slow", "fast"])
    made.add_argument("--kind", metavar=["a", "b"])  # type: ignore[arg-type]
    made.add_argument("--hosts", nargs="+")
    made.add_argument("--quiet", action="store_true")
    made.add_argument("--plain", action=argparse.BooleanOptionalAction)
    made.add_argument("--enable-cache", action=OnOff)
    made.add_argument("--old", help="[DEPRECATED] gone soon")
    return made


def test_every_sort_of_flag_is_told_apart(parser: argparse.ArgumentParser) -> None:
    assert dict(snapshot._flags(parser)) == {
        "seats": {"type": "int", "aliases": ["-s"]},
        "length": {"type": "size"},
        "share": {"type": "float", "aliases": ["part"]},
        "rules": {"type": "json"},
        "name": {"type": "str"},
        "mode": {"type": "str", "choices": ["slow", "fast"]},
        "kind": {"type": "str", "choices": ["a", "b"]},
        "hosts": {"type": "str", "list": True},
        "quiet": {"type": "bool"},
        "plain": {"type": "bool", "off": ["no-plain"]},
        "enable-cache": {"type": "bool", "off": ["disable-cache", "no-enable-cache"]},
        "old": {"type": "str", "deprecated": True},
    }


def test_document_reads_back_as_a_version(
    parser: argparse.ArgumentParser, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = ("9.1.0+cpu", dict(snapshot._flags(parser)), ["VLLM_A", "VLLM_B"])
    monkeypatch.setattr(snapshot, "vllm", lambda: found)
    read = version(yaml.safe_load("\n".join(snapshot.document("vllm"))))
    assert (read.engine, read.version) == ("vllm", "9.1.0")
    assert read.environment == {"VLLM_A", "VLLM_B"}
    assert_message(read.wrong_flag("mode", "fats"))


def test_option_of_click_is_told_by_its_type() -> None:
    choice = SimpleNamespace(is_flag=False, type=SimpleNamespace(name="choice", choices=("a",)))
    number = SimpleNamespace(is_flag=False, type=SimpleNamespace(name="integer"))
    switch = SimpleNamespace(is_flag=True, type=SimpleNamespace(name="boolean"))
    assert [snapshot._option(option) for option in (choice, number, switch)] == [
        {"type": "str", "choices": ["a"]},
        {"type": "int"},
        {"type": "bool"},
    ]


class Cache(BaseModel):
    """A part of the settings."""

    kind: Literal["auto", "fp8"] = "auto"
    share: Annotated[float | None, Field(ge=0)] = None
    windows: list[int] | None = None


class Drafts(BaseModel):
    """One of two ways."""

    way: Literal["mtp"] = "mtp"
    layers: int = 1


class Ngram(BaseModel):
    """The other."""

    way: Literal["ngram"] = "ngram"


class Settings(BaseModel):
    """As TensorRT-LLM has them: fields, parts that are models, parts of several kinds."""

    spread: bool = False
    interval: int = 1
    cache: Cache = Cache()
    drafts: Drafts | Ngram | None = None
    name: str | int = ""


def test_fields_of_a_file_are_told_by_their_annotations() -> None:
    found = snapshot._fields(Settings)
    assert found == {
        "spread": {"type": "bool"},
        "interval": {"type": "int"},
        "cache.kind": {"type": "str", "choices": ["auto", "fp8"]},
        "cache.share": {"type": "float"},
        "cache.windows": {"type": "json"},
        "drafts.way": {"type": "str", "choices": ["mtp", "ngram"]},
        "drafts.layers": {"type": "int"},
        "name": {"type": "str"},
    }


def test_fields_are_part_of_a_version(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot, "trtllm", lambda: ("1.2.1", {"port": {"type": "int"}}, []))
    monkeypatch.setattr(snapshot, "trtllm_fields", lambda: snapshot._fields(Settings))
    read = version(yaml.safe_load("\n".join(snapshot.document("trtllm"))))
    assert read.wrong_flag("cache.kind", "fp8") == ""
    assert_message(
        read.wrong_flag("cache.kind", "fp9"),
        read.wrong_flag("cache", "{}"),
        read.wrong_flag("cache.knd", "fp8"),
        read.wrong_flag("port.x", 1),
    )


def test_script_needs_nothing_of_ours(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-I", "-", "sglang"],
        input=Path(snapshot.__file__).read_text(),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "No module named 'sglang'" in done.stderr


def test_lists_are_of_the_version_that_their_names_say() -> None:
    for path in engines.DIRECTORY.glob("*-[0-9]*.yaml"):
        document = yaml.safe_load(path.read_text())
        assert path.stem == f"{document['engine']}-{document['version']}"
        assert len(document["flags"]) > 20


def test_lowest_safe_version_is_the_highest_that_mends_something() -> None:
    known = engines.load()["vllm"]
    assert max(known.advisories, key=lambda one: one.fixed).fixed == "0.22.0"
    assert all(one.source and one.what for one in known.advisories)
