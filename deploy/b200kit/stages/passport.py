"""Passport: a node that was found fit for the first time, or that is to be renewed, is accepted.

It runs right after the gate, so only a fit node ever gets one. The next observation carries it, and
every later verdict, at boot too, is also a comparison with it.
"""

from __future__ import annotations

import json

from b200kit.converge.stage import Change, Stage, nothing, put
from b200kit.node.checks.host import passport_record
from b200kit.node.state.drift import File
from b200kit.node.state.view import Unread
from b200kit.run.node import Node, StageFailed


def plan(node: Node) -> list[Change]:
    """Issue a passport where there is none, and a new one when asked and something differs."""
    state = node.state or {}
    notes = state.get("notes")
    kept = notes.get("passport") if isinstance(notes, dict) else None
    try:
        fresh = passport_record.issue(state)
    except Unread as unread:
        raise StageFailed(f"no passport can be issued: {unread}") from None
    renew = node.spec.passport == "renew" and not passport_record.same(kept, fresh)
    if kept is not None and not renew:
        return []
    content = json.dumps(fresh, indent=1, sort_keys=True).encode()
    what = "renew the passport" if kept is not None else "issue the passport"
    return [Change(what, lambda node: put(node, [File(passport_record.PATH, content)]))]


STAGE = Stage(name="passport", desired=nothing, plan=plan)
