"""A model that nodes fetch from the Hub: its manifest on the controller, where its files are."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from b200kit.catalog import load
from b200kit.inventory.keys.problem import Problem
from b200kit.inventory.keys.source import INTERNET
from b200kit.inventory.keys.weights import token_problems
from b200kit.inventory.spec import NodeSpec
from b200kit.node.weights.manifest import ManifestError, parse
from b200kit.supply.models import hub
from b200kit.supply.models.manifest import origin_of, pin_command
from b200kit.supply.program import SupplyRefused


def manifest(spec: NodeSpec) -> bytes | None:
    """The manifest's bytes; None where the model does not come from the Hub."""
    if spec.source != INTERNET or spec.model_manifest is None:
        return None
    return Path(spec.model_manifest).read_bytes()


def url(raw: bytes) -> str:
    """Where the Hub has the files of a manifest."""
    origin = origin_of(raw)
    if origin is None:
        raise ValueError("it does not say which commit of the Hub it is of")
    return f"{hub.endpoint()}/{origin.below}"


def problems(spec: NodeSpec) -> Iterator[Problem]:
    """Why the model can't come from the Hub: its manifest, the library, or a token in the open."""
    try:
        raw = manifest(spec)
        if raw is None:
            return
        parse(raw, spec.model_revision)
        where = url(raw)
    except OSError:
        yield Problem("model_manifest", f"{spec.model_manifest} is not there: {made_by(spec)}")
    except SupplyRefused as error:
        yield Problem("source", str(error))
    except (ManifestError, ValueError) as error:
        yield Problem("model_manifest", f"{spec.model_manifest}: {error}: {made_by(spec)}")
    else:
        if spec.hf_token:
            yield from token_problems(where, spec.model_store_tls)


def made_by(spec: NodeSpec) -> str:
    """The command that makes the manifest, with the repository where the catalogue knows it."""
    known = load.load().models.get(spec.model)
    return pin_command(spec.model, known, Path(spec.model_manifest or "").parent)
