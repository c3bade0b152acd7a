"""The fleet now as one HTML page that is renewed in place, and says so when it is not.

It reloads itself (meta refresh), so that whoever writes it needs no server. Its one script compares
the time it was made with the reader's clock; without scripts the time and the interval stand there.
"""

from __future__ import annotations

import base64
import hashlib
from functools import cache

from markupsafe import Markup

from b200kit.node.lib import timestamp
from b200kit.report.content.now import fleet as words
from b200kit.report.content.now.fleet import FleetNow, FleetRow
from b200kit.report.content.now.node import NodeNow
from b200kit.report.html.templates import template
from b200kit.report.names import hostlist
from b200kit.run.places import TEMPLATES

NAMED = 60
"""Nodes up to which each has its name on its tile and its line in the open table."""
_SIGNS = {"bad": "✕", "unknown": "?", "idle": "~", "waived": "!", "good": ""}
_LATE = 3
"""Intervals after which the page takes itself for old; a reload may meet a slow disk."""


def page(fleet: FleetNow) -> str:
    """The page; *every_s* of 0 is a page that nobody renews."""
    script, digest = _script()
    text = template("report/fleet.html.j2").render(
        fleet=fleet,
        figures=list(words.figures(fleet)),
        made=words.made(fleet),
        made_s=int(fleet.at),
        refresh_s=max(2, round(fleet.every_s)) if fleet.every_s else 0,
        late_s=max(15, round(_LATE * fleet.every_s)),
        rows=[_row(row) for row in fleet.rows],
        sound=(words.all_sound(fleet), hostlist(fleet.sound)) if fleet.sound else None,
        nodes=[_node(node) for node in fleet.nodes],
        named=len(fleet.nodes) <= NAMED,
        script=script,
        digest=digest,
    )
    return text.strip() + "\n"


def _row(row: FleetRow) -> dict[str, object]:
    """Nodes of which the same is to be said: each point with its time, and what to do about it."""
    points = [(words.told(one, one.when), todo) for one, todo in words.once_each(row.points)]
    return {"names": hostlist(row.names), "of": row, "points": points}


def _node(node: NodeNow) -> dict[str, object]:
    serving, replicas = node.replicas or (0, 0)
    until = node.proof.until
    return {
        "name": node.name,
        "outcome": node.outcome,
        "sign": _SIGNS[node.outcome.tone],
        "why": node.points[0].what if node.points else "",
        "replicas": f"{serving} of {replicas}" if node.replicas else "unmeasured",
        "gpus": "unmeasured" if node.gpus is None else str(node.gpus),
        "proof": node.proof.state,
        "until": timestamp.text(until).replace("T", " ") if until else "",
    }


@cache
def _script() -> tuple[Markup, str]:
    """The script, and by what the page's policy lets that one run and no other."""
    text = (TEMPLATES / "report" / "fleet.js").read_text(encoding="utf-8")
    digest = hashlib.sha256(text.encode()).digest()
    return Markup(text), f"sha256-{base64.b64encode(digest).decode()}"  # noqa: S704 - our own file
