"""What a node serves, as a document: kept on it once it is live, for the way back to it. Pure.

Keys that say how the site runs its fleet, and secrets, are not part of it: a rollback leaves them
as the inventory has them now. Files of the controller are named by their digests.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import ValidationError

from b200kit.inventory.keys.reprovision import ReprovisioningKeys
from b200kit.inventory.keys.rollout import RolloutKeys
from b200kit.inventory.spec import NodeSpec

SCHEMA = "b200kit/served/1"
SITES_OWN = frozenset(
    {
        *ReprovisioningKeys.model_fields,
        *RolloutKeys.model_fields,
        *("fleet", "fleet_address", "fleet_weight", "api_key", "hf_token", "kept"),
        *("events", "tune", "waivers", "passport", "smoke_always", "console", "stage_timeout_s"),
    }
)
"""Keys that a rollback leaves as the inventory has them."""
_NONE = "none"
_LONG = 60


class NoWayBack(ValueError):
    """Why a node cannot go back to what it served, in one line."""


def files(spec: NodeSpec) -> tuple[str, ...]:
    """Files of the controller whose content reaches the node, by path."""
    named = (spec.engine.requirements if not spec.engine.image else "", spec.model_config_file)
    return tuple(path for path in (*named, spec.model_manifest, *spec.system_prompts) if path)


def document(
    spec: NodeSpec, digests: Mapping[str, str], roots: Mapping[str, str]
) -> dict[str, Any]:
    """What this spec has a node serve; *digests* are the SHA-256 of `files(spec)`.

    *roots* are folders by the words that stand for them, so that the document is the same wherever
    an operator keeps the site: {"{site}": "/home/ops/site"}.
    """
    keys = spec.model_dump(
        # Where a key takes a word or a mapping, pydantic warns of the word and writes it.
        mode="json",
        by_alias=True,
        exclude=set(SITES_OWN),
        warnings=False,
    )
    found: dict[str, Any] = {"schema": SCHEMA, "keys": keys, "files": dict(digests)}
    for word, folder in roots.items():
        found = _replaced(found, folder, word)
    return found


def placed(known: object, roots: Mapping[str, str]) -> Any:
    """A document with this operator's folders in it."""
    for word, folder in roots.items():
        known = _replaced(known, word, folder)
    return known


def _replaced(value: Any, old: str, new: str) -> Any:
    """A path's beginning is another one, wherever it stands."""
    if isinstance(value, Mapping):
        return {
            _replaced(key, old, new): _replaced(below, old, new) for key, below in value.items()
        }
    if isinstance(value, list):
        return [_replaced(each, old, new) for each in value]
    if isinstance(value, str) and value.startswith(f"{old}/"):
        return new + value.removeprefix(old)
    return value


def digest(known: Mapping[str, Any]) -> str:
    """By which two documents are the same."""
    return hashlib.sha256(json.dumps(known, sort_keys=True).encode()).hexdigest()


def restored(spec: NodeSpec, known: object, digests: Mapping[str, str]) -> NodeSpec:
    """*spec* with what the node served; *digests* are of its files as they are now.

    Raises NoWayBack.
    """
    if not isinstance(known, Mapping) or known.get("schema") != SCHEMA:
        raise NoWayBack("what it served before is not known")
    for path, then in known["files"].items():
        if digests.get(path) != then:
            raise NoWayBack(f"{path} is not the file that it was served with")
    try:
        former = NodeSpec.model_validate(known["keys"])
    except ValidationError as error:
        key = ".".join(map(str, error.errors()[0]["loc"]))
        raise NoWayBack(f"this version does not know its {key} as it was") from None
    return former.replace(**{key: getattr(spec, key) for key in SITES_OWN})


def differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Each key that is another, as "driver 580.126.20 -> 580.142.07", in the inventory's order."""
    old, new = dict(_flat(before["keys"])), dict(_flat(now["keys"]))
    names = list(dict.fromkeys([*new, *old]))
    changed = [
        f"{name} {_shown(old.get(name))} -> {_shown(new.get(name))}"
        for name in names
        if old.get(name) != new.get(name)
    ]
    pairs = before["files"].items()
    return changed + [
        f"{path} changed" for path, was in pairs if now["files"].get(path, was) != was
    ]


def _flat(value: object, name: str = "") -> Iterator[tuple[str, object]]:
    if not isinstance(value, Mapping):
        yield name, value
        return
    for key, below in value.items():
        yield from _flat(below, f"{name}.{key}" if name else str(key))


def _shown(value: object) -> str:
    if value is None or value == []:
        return _NONE
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= _LONG else f"{text[: _LONG - 3]}..."
