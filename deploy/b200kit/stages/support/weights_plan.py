"""What is to be done about the model on a node, from its observation. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from b200kit.node.state import drift
from b200kit.node.weights.manifest import size_text

_AT_WORK = ("active", "activating", "reloading")


@dataclass(frozen=True)
class Begin:
    """A fetch to begin: why, for a person, and whether what is there counts as unproven."""

    why: str
    again: bool = False


def begin(state: Mapping[str, Any], unit: str, changed: bool) -> Begin | None:
    """The fetch that is due; None where the model is whole, or is being fetched as asked.

    *changed* says that the unit on the node is another one than asked for.
    """
    spoilt = wrong(state)
    if spoilt:
        path, why = next(iter(spoilt.items()))
        more = f" and {len(spoilt) - 1} more" if len(spoilt) > 1 else ""
        return Begin(f" again: {path} is {why}{more}", again=True)
    if is_whole(state) or (_at_work(state, unit) and not changed):
        return None
    have = _model(state).get("bytes")
    return Begin(f", {size_text(have)} of it are there" if isinstance(have, int) and have else "")


def is_whole(state: Mapping[str, Any]) -> bool:
    """Whether the model is there, stamped, and as it was proven; what was not read is not."""
    model = _model(state)
    return model.get("complete") is True and model.get("wrong") == {}


def wrong(state: Mapping[str, Any]) -> dict[str, str]:
    """Files of a stamped model that are not as they were proven, and what is wrong with them."""
    model = _model(state)
    found = model.get("wrong") if model.get("complete") is True else None
    return {str(k): str(v) for k, v in found.items()} if isinstance(found, Mapping) else {}


def surplus(state: Mapping[str, Any], keep: int | None, units: Sequence[str]) -> list[str]:
    """Revisions to remove, as "MODEL/REVISION": all but the requested one and the *keep* newest.

    None while the requested one is not whole, or a replica may still serve an older one: one that
    does not run, or has a pending restart.
    """
    if keep is None or not is_whole(state) or not _all_serve(state, units):
        return []
    listed = (state.get("weights") or {}).get("revisions")
    entries = [e for e in listed if isinstance(e, Mapping)] if isinstance(listed, list) else []
    others = [entry for entry in entries if entry.get("requested") is not True]
    # Newest first, as they are listed; what never got its stamp is of use to nobody.
    whole = [entry for entry in others if entry.get("complete") is True]
    begun = [entry for entry in others if entry not in whole]
    return [f"{entry['model']}/{entry['revision']}" for entry in [*whole[keep:], *begun]]


def _all_serve(state: Mapping[str, Any], units: Sequence[str]) -> bool:
    observed = state.get("units")
    if not isinstance(observed, Mapping):
        return False
    pending = [u for u in units if drift.is_present(drift.pending_marker(f"restart:{u}"), state)]
    return not pending and all(
        (observed.get(unit) or {}).get("active") == "active" for unit in units
    )


def _at_work(state: Mapping[str, Any], unit: str) -> bool:
    observed = state.get("units")
    entry = observed.get(unit) if isinstance(observed, Mapping) else None
    return isinstance(entry, Mapping) and entry.get("active") in _AT_WORK


def _model(state: Mapping[str, Any]) -> Mapping[str, Any]:
    part = state.get("weights")
    model = part.get("model") if isinstance(part, Mapping) else None
    return model if isinstance(model, Mapping) else {}
