"""What follows from the key `source`: repositories, wheelhouse and model store of a node. Pure.

A spec is resolved here once, so that stages read `repositories`, `engine.wheelhouse` and
`model_store` wherever they are from. `""` for the last two means their tools' own default: the
package index that pip is set up for, and the Hub.
"""

from __future__ import annotations

from collections.abc import Iterator

from b200kit.catalog.types import Catalogue, Preset
from b200kit.inventory.keys.parts import Repository
from b200kit.inventory.keys.problem import Problem
from b200kit.inventory.keys.source import INTERNET, Mirror
from b200kit.inventory.spec import NodeSpec

MIRROR = "mirror"
"""Name of the one repository that a mirror is."""
_TOGETHER = "is given together with source: leave one of them out"


def problems(spec: NodeSpec, catalogue: Catalogue) -> Iterator[Problem]:
    """What the inventory gives twice or not at all; *spec* is as given, not resolved."""
    if spec.model_manifest and spec.source != INTERNET:
        yield Problem("model_manifest", f'is for source = "{INTERNET}": leave it out')
    if spec.source is None:
        yield from _by_hand(spec)
        return
    if spec.system is None:
        yield Problem("system", f"is required with source: one of {', '.join(catalogue.systems)}")
    if spec.model_store:
        yield Problem("model_store", _TOGETHER)
    if spec.engine.wheelhouse:
        yield Problem("engine.wheelhouse", _TOGETHER)


def _by_hand(spec: NodeSpec) -> Iterator[Problem]:
    described = NodeSpec.model_fields
    for name, value in (("repositories", spec.repositories), ("model_store", spec.model_store)):
        if value in (None, ""):
            what = (described[name].description or "").partition(";")[0]
            yield Problem(name, f"is required: {what}; or give a source")


def resolved(spec: NodeSpec, catalogue: Catalogue) -> NodeSpec:
    """The spec with what its source means; as it is where that is not to be known."""
    if isinstance(spec.source, Mirror) and spec.system:
        return _of_mirror(spec, spec.source, spec.system)
    if spec.source is None:
        return spec.replace(repositories=() if spec.repositories is None else spec.repositories)
    file = f"{catalogue.site}/models/{manifest_file(spec.model, spec.model_revision)}"
    presets = _presets(spec, catalogue) if spec.repositories is None else spec.repositories
    return spec.replace(
        repositories=presets,
        model_manifest=spec.model_manifest or file,
    )


def manifest_file(model: str, revision: str) -> str:
    """What the manifest of a model from the Hub is called in the inventory's `models/`."""
    return f"{model}-{revision[:12]}.json"


def _presets(spec: NodeSpec, catalogue: Catalogue) -> tuple[Repository, ...]:
    system = catalogue.systems.get(spec.system or "")
    presets = system.repositories if system else ()
    return tuple(preset_repository(preset, catalogue.site) for preset in presets)


def preset_repository(preset: Preset, site: str) -> Repository:
    """A vendor's repository as an inventory in the folder *site* would name it."""
    return Repository(
        name=preset.name,
        url=preset.url,
        key=f"{site}/keys/{preset.name}.asc",
        fingerprint=preset.fingerprint,
        suites=preset.suites,
        components=preset.components,
    )


def _of_mirror(spec: NodeSpec, mirror: Mirror, system: str) -> NodeSpec:
    wheels = spec.engine.replace(wheelhouse="" if spec.engine.image else mirror.below("wheels/"))
    return spec.replace(
        repositories=(mirror_repository(mirror, system),),
        engine=wheels,
        model_store=mirror.below("models"),
    )


def mirror_repository(mirror: Mirror, system: str) -> Repository:
    """A mirror as apt reads it: one suite, named like the system, with one component."""
    return Repository(
        name=MIRROR,
        url=mirror.below(f"apt/{system}/"),
        key=mirror.key,
        fingerprint=mirror.fingerprint,
        suites=system,
        components="main",
    )
