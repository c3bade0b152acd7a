"""Served: once a node is live, what it serves is noted on it: the way back from a change."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from b200kit.converge.stage import Change, DesiredState, Stage, converge
from b200kit.inventory import served
from b200kit.inventory.served import NoWayBack
from b200kit.inventory.spec import NodeSpec
from b200kit.node.placement.layout import Replica
from b200kit.node.state.drift import File
from b200kit.run.node import Node
from b200kit.run.places import PACKAGE
from b200kit.run.session import RUN

KIT = PACKAGE.parents[1]
PATH = "/var/lib/b200kit/served.json"


def desired(node: Node, layout: Sequence[Replica]) -> DesiredState:
    """The note."""
    del layout
    content = json.dumps(document(node.spec), indent=1, sort_keys=True).encode()
    return DesiredState(files=(File(PATH, content),))


def document(spec: NodeSpec) -> dict[str, Any]:
    """What this spec has a node serve, with its files as they are now."""
    return served.document(spec, _digests(served.files(spec)), _roots())


def on_node(node: Node) -> dict[str, Any] | None:
    """What the node served when it was last live; None where nothing says it."""
    notes = (node.record.state or {}).get("notes")
    found = notes.get("served") if isinstance(notes, dict) else None
    return found if isinstance(found, dict) and found.get("schema") == served.SCHEMA else None


def restored(spec: NodeSpec, known: object) -> NodeSpec:
    """*spec* with what is *known* to have been served. Raises NoWayBack."""
    here = served.placed(known, _roots())
    paths = here.get("files") if isinstance(here, dict) else None
    try:
        return served.restored(spec, here, _digests(tuple(paths or ())))
    except OSError as error:
        raise NoWayBack(f"{error.filename}: {error.strerror}") from None


def _roots() -> dict[str, str]:
    return {
        word: folder for word, folder in {"{site}": RUN.site, "{kit}": str(KIT)}.items() if folder
    }


def _digests(paths: Sequence[str]) -> dict[str, str]:
    return {path: hashlib.sha256(Path(path).read_bytes()).hexdigest() for path in paths}


def plan(node: Node) -> list[Change]:
    """Note it, where the note says something else."""
    return converge(node, desired(node, node.layout()))


STAGE = Stage(name="served", desired=desired, plan=plan)
