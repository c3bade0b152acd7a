"""Files of the controller that an inventory names: there, readable, and saying what it says."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path

from b200kit import engines
from b200kit.catalog import load
from b200kit.inventory import certificates, engine_rules, openpgp
from b200kit.inventory.keys import reprovision
from b200kit.inventory.keys.driver_version import branch
from b200kit.inventory.keys.parts import Repository
from b200kit.inventory.keys.problem import Problem
from b200kit.inventory.keys.source import Mirror
from b200kit.inventory.spec import NodeSpec
from b200kit.node.client import prompts
from b200kit.node.serving.libraries import FIRST_DRIVER, libraries
from b200kit.run import places
from b200kit.serving import compile_tools
from b200kit.supply.locks import shipped
from b200kit.supply.models import hub_model


def missing(spec: NodeSpec) -> Iterator[Problem]:
    """Files of the controller that the inventory names and nobody can read."""
    named = [] if spec.engine.image else [("engine.requirements", spec.engine.requirements)]
    named += [(f"{key}.key", r.key) for key, r in _repositories(spec)]
    named += certificates.authorities(spec)
    named += [(f"system_prompts.{n}", path) for n, path in enumerate(spec.system_prompts)]
    yield from hub_model.problems(spec)
    for key, path in named:
        try:
            Path(path).read_bytes()
        except OSError as error:
            remedy = _remedy(spec, key, path) if isinstance(error, FileNotFoundError) else ""
            message = f"{path} cannot be read on the controller: {error.strerror}"
            yield Problem(key, remedy or message)
    yield from _unusable_prompts(spec)
    for number, path in enumerate(spec.system_prompts):
        with contextlib.suppress(OSError):
            text = Path(path).read_text("utf-8", "replace")
            if not text.strip() or "\ufffd" in text:
                yield Problem(f"system_prompts.{number}", f"{path} is empty or is no UTF-8 text")


def _unusable_prompts(spec: NodeSpec) -> Iterator[Problem]:
    try:
        prompts.source(spec.smoke.prompts)
    except OSError as error:
        message = f"{spec.smoke.prompts} cannot be read on the controller: {error.strerror}"
        yield Problem("smoke.prompts", message)
    except ValueError as error:
        yield Problem("smoke.prompts", str(error))


def _remedy(spec: NodeSpec, key: str, path: str) -> str:
    """The command that makes a file which is not there; empty where there is none."""
    if key == "engine.requirements":
        return shipped.missing(spec.engine)
    if key == "source.key":
        return f"{path} is not there: b200 mirror key --to {Path(path).parent}"
    system = load.load().systems.get(spec.system or "")
    presets = {each.name for each in system.repositories} if system else set()
    if key.startswith("repositories.") and Path(path).stem in presets:
        return f"{path} is not there: b200 keys {spec.system} --to {Path(path).parent}"
    return ""


def away(spec: NodeSpec) -> Iterator[Problem]:
    """Commands that a repair starts, and that are no programs of the controller."""
    for key, program in reprovision.commands(spec):
        if not shutil.which(program, path=places.programs()):
            yield Problem(key, f"{program} is no program that is found on the controller")


def wrong(spec: NodeSpec) -> Iterator[Problem]:
    """Files that say something else than the inventory does."""
    yield from wrong_keys(spec)
    if not spec.engine.image:
        lock = Path(spec.engine.requirements).read_text(errors="replace")
        if message := engine_rules.unlike_lock(engines.get(spec.engine), spec.engine, lock):
            make = shipped.command(spec.engine)
            yield Problem("engine.version", f"{message}: {make}" if make else message)
        if message := compile_tools.uncompilable(spec, lock.encode()):
            yield Problem("engine.requirements", f"{spec.engine.requirements} {message}")
        yield from compile_tools.unanswerable(spec, lock.encode())
        yield from _newer_than_driver(spec, lock)
        if spec.engine.kind != "stand-in" and not engine_rules.python_of(lock):
            wanted = 'add a line such as "# python: 3.12"'
            message = f"{spec.engine.requirements} does not name the Python it is for; {wanted}"
            yield Problem("engine.requirements", message)


def _newer_than_driver(spec: NodeSpec, lock: str) -> Iterator[Problem]:
    """A lock of a CUDA that the driver does not run: the engine would end at its first call."""
    built = libraries(lock).get("cuda", "") if spec.engine.kind == "cuda" else ""
    first = FIRST_DRIVER.get(int(built.partition(".")[0])) if built else None
    if first and branch(spec.driver) < first:
        message = f"{spec.engine.requirements} is of CUDA {built}, which needs driver {first}"
        yield Problem("driver", f"{message} or newer, not {spec.driver}")


def _repositories(spec: NodeSpec) -> Iterator[tuple[str, Repository]]:
    """Each repository of the node by the key of the inventory that says it."""
    for number, repository in enumerate(spec.repositories):
        yield (
            "source" if isinstance(spec.source, Mirror) else f"repositories.{number}",
            repository,
        )


def wrong_keys(spec: NodeSpec) -> Iterator[Problem]:
    """Keys of repositories that are others than the inventory pins."""
    for key, repository in _repositories(spec):
        try:
            actual = openpgp.fingerprints(Path(repository.key).read_text(errors="replace"))
        except ValueError as wrong:
            yield Problem(f"{key}.key", f"{repository.key} {wrong}")
            continue
        if repository.fingerprint.upper() not in actual:
            there = f"{repository.key} has {', '.join(actual)}"
            message = f"{there}, the inventory pins {repository.fingerprint}"
            yield Problem(f"{key}.fingerprint", message)
