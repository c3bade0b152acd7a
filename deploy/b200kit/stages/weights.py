"""Weights: the model begins to come before the driver is installed, and is awaited before serving.

A unit on the node fetches it (b200kit/node/weights/fetch.py), so neither the end of the controller
nor a reboot ends that: it goes on at boot where it was. Two stages are about it: `weights` begins,
and fails at once where no other try could help; `model` waits until it is there.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from b200kit.converge.stage import Change, DesiredState, Stage, converge, removal
from b200kit.node.lib import documents
from b200kit.node.placement.layout import Replica
from b200kit.node.state import drift
from b200kit.node.state.drift import File, NodeUnit
from b200kit.node.weights.manifest import STAMP, size_text
from b200kit.run.node import Node, StageFailed, duration
from b200kit.run.remote import RemoteError
from b200kit.run.render import render
from b200kit.serving.replica import SECRETS, model_dir, unit_name
from b200kit.supply.models import hub_model

_AT_WORK = ("active", "activating", "reloading")


@dataclass(frozen=True)
class Begin:
    """A fetch to begin: why, for a person, and whether what is there counts as unproven."""

    why: str
    again: bool = False


def due_fetch(state: Mapping[str, Any], unit: str, changed: bool) -> Begin | None:
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


UNIT = "b200-weights.service"
SERVER = "b200-weights-server.service"
_UNITS = "/etc/systemd/system"
TOKEN_NAME = "hf_token"  # noqa: S105 - the name of a file
_TOKEN = f"{SECRETS}/{TOKEN_NAME}"
_MANIFEST = "/etc/b200kit/model-manifest.json"
_LOOK_S = 15


def desired(node: Node, layout: Sequence[Replica]) -> DesiredState:
    """The unit that fetches, its token, and the weights server where that is requested."""
    del layout
    server = node.spec.weights.server
    return DesiredState(
        files=(
            *_token(node),
            *_manifest(node),
            _fetching(node),
            *([_server(node)] if server else []),
        ),
        units=(NodeUnit(UNIT, active=False), *([NodeUnit(SERVER)] if server else [])),
        probe_files=(f"{model_dir(node)}/{STAMP}",),
        observe_request={"weights": {**_named(node), "hash": node.spec.weights_verify == "hash"}},
        absent_files=() if server else (f"{_UNITS}/{SERVER}",),
        absent_units=() if server else (SERVER,),
    )


def expected(node: Node, serving: bool = False) -> dict[str, Any]:
    """What the gate judges; a model that is not there is a fault only once it is to serve."""
    return {"weights": {**_named(node), "serving": serving}}


def _named(node: Node) -> dict[str, str]:
    spec = node.spec
    return {"root": spec.models(), "model": spec.model, "revision": spec.model_revision}


def _token(node: Node) -> list[File]:
    secret = node.secrets.get(TOKEN_NAME)
    return [File(_TOKEN, secret.reveal(), 0o600, secret=True)] if secret else []


def _manifest(node: Node) -> list[File]:
    """What the Hub has not: the manifest, where the model comes from there."""
    raw = hub_model.manifest(node.spec)
    return [File(_MANIFEST, raw)] if raw else []


def _fetching(node: Node) -> File:
    spec = node.spec
    unit = render(
        f"systemd/{UNIT}.j2",
        model=spec.model,
        revision=spec.model_revision,
        root=spec.models(),
        dest=model_dir(node),
        storage=spec.storage,
        arguments=_arguments(node),
        token=_TOKEN if TOKEN_NAME in node.secrets else None,
    )
    return File(f"{_UNITS}/{UNIT}", unit)


def _arguments(node: Node) -> list[str]:
    spec, name = node.spec, f"{node.spec.model}/{node.spec.model_revision}"
    words = ["--dest", model_dir(node), "--revision", spec.model_revision]
    words += ["--parallel", str(spec.weights.parallel)]
    for peer in spec.weights.peers:
        words += ["--peer", f"{peer.rstrip('/')}/{name}"]
    if raw := hub_model.manifest(spec):
        return [*words, "--manifest", _MANIFEST, "--url", hub_model.url(raw)]
    return [*words, "--url", f"{spec.model_store.rstrip('/')}/{name}"]


def _server(node: Node) -> File:
    spec = node.spec
    unit = render(
        f"systemd/{SERVER}.j2",
        root=spec.models(),
        storage=spec.storage,
        server=spec.weights.server,
    )
    return File(f"{_UNITS}/{SERVER}", unit, notify=(f"restart:{SERVER}",))


def plan(node: Node) -> list[Change]:
    """The units; a fetch where the model is missing; removal of revisions that nobody requests."""
    target, state = desired(node, ()), node.state or {}
    changes = [*removal(node, target), *converge(node, target)]
    changed = bool(drift.changed_files([_fetching(node)], state, node.nonce))
    begin = due_fetch(state, UNIT, changed)
    if begin:
        what = f"begin to fetch the model {node.spec.model}{begin.why}"
        changes.append(Change(what, partial(_begin, again=begin.again)))
    units = [unit_name(number) for number in range(node.spec.replicas)]
    for old in surplus(state, node.spec.weights.retain, units):
        path = f"{node.spec.models()}/{old}"
        changes.append(Change(f"remove {path}, which nobody asks for", partial(_drop, path=path)))
    return changes


def _program(node: Node, act: str, more: str = "") -> dict[str, Any]:
    """What the node program says of the model; `progress` is {} where nothing was reported yet."""
    words = f"weights {act} --dest {shlex.quote(model_dir(node))} --seconds {_LOOK_S} {more}"
    said = node.connected().program(words.rstrip())
    try:
        observed = documents.decode(documents.Object, said, source="what `weights` prints")
    except documents.Malformed as error:
        raise RemoteError(str(error)) from None
    return {**observed, "progress": observed.get("progress") or {}}


def _begin(node: Node, again: bool) -> str:
    """Start the unit; what it first says. A refusal ends the node here, before anything long."""
    observed = _program(node, "begin", "--again" if again else "")
    progress = observed["progress"]
    if observed["complete"]:
        return "the model is there"
    if progress.get("state") == "refused":
        raise StageFailed(f"the model cannot be fetched: {progress.get('error')}")
    if progress.get("state") == "failed":
        return f"not yet: {progress.get('error')}; tried again while the rest goes on"
    return _how_far(progress)


def _how_far(progress: dict[str, Any]) -> str:
    total, have = progress.get("total_bytes") or 0, progress.get("have_bytes") or 0
    if not total:
        return "being looked for"
    rate = f", {size_text(progress['rate'])}/s" if progress.get("rate") else ""
    return f"{size_text(have)} of {size_text(total)}{rate}"


def _drop(node: Node, path: str) -> None:
    root = shlex.quote(node.spec.models())
    node.connected().program(f"weights drop --dest {shlex.quote(path)} --root {root}")


def ready(node: Node) -> list[Change]:
    """Wait for the model where it is not there."""
    state, spec = node.state or {}, node.spec
    changes = []
    if not is_whole(state):
        last: dict[str, Any] = {}

        def progress_text(seconds: float) -> str:
            return f"the model: {_how_far(last)}, {duration(seconds)} so far"

        what = f"wait for the model {spec.model}"
        changes.append(Change(what, partial(_await, last=last), progress_text=progress_text))
    return changes


def _await(node: Node, last: dict[str, Any]) -> str:
    """Until the model is there; one whole try more where the unit's last one failed.

    Raises StageFailed with the fetch's error, or when the deadline is over.
    """
    end = time.monotonic() + node.spec.weights.deadline_s
    tried = False
    while time.monotonic() < end:
        observed = _program(node, "wait")
        last.update(observed["progress"])
        if observed["complete"]:
            return f"{size_text(last.get('total_bytes') or 0)}, proven"
        ended = not observed["running"] or last.get("state") in ("failed", "refused")
        if ended and (tried or last.get("state") == "refused"):
            error = last.get("error") or f"{UNIT} ended without a word; see its journal"
            raise StageFailed(f"the model was not fetched: {error}")
        if ended:
            tried = True
            last.clear()
            _program(node, "begin")
    raise StageFailed(
        f"the model is not there after {duration(node.spec.weights.deadline_s)}: "
        f"{_how_far(last)}; the node goes on fetching, run again later"
    )


STAGE = Stage(name="weights", desired=desired, plan=plan)
READY = Stage(name="model", desired=desired, plan=ready)
