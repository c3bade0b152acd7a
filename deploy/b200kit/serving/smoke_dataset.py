"""What the smoke test sends, as a key of serving.json, and the site's own prompts on the node."""

from __future__ import annotations

from typing import Any

from b200kit.node.client.dataset import dataset
from b200kit.node.client.dataset.site_file import SiteFile
from b200kit.node.state.drift import File
from b200kit.run.node import Node

PROMPTS = "/etc/b200kit/prompts.jsonl"


def files(node: Node) -> list[File]:
    """The site's prompts, which are nobody's business but root's."""
    source = dataset.source(node.spec.smoke.prompts)
    return [File(PROMPTS, source.data(), 0o600)] if isinstance(source, SiteFile) else []


def absent_files(node: Node) -> tuple[str, ...]:
    """Prompts of an earlier configuration."""
    return () if files(node) else (PROMPTS,)


def document(node: Node) -> dict[str, Any]:
    """The key `smoke.dataset`. named: another file is another load."""
    smoke = node.spec.smoke
    source = dataset.source(smoke.prompts)
    return {
        "prompts": PROMPTS if isinstance(source, SiteFile) else smoke.prompts,
        "named": source.name,
        "prefix_share": smoke.prefix_share,
        "prefix_requests": smoke.prefix_requests,
        "turns": smoke.turns,
    }
