"""What the smoke test sends, as keys of serving.json, and the site's own prompts on the node."""

from __future__ import annotations

from b200kit.node.client import prompts
from b200kit.node.client.prompts import SiteFile
from b200kit.node.state.drift import File
from b200kit.run.node import Node

PROMPTS = "/etc/b200kit/prompts.jsonl"


def files(node: Node) -> list[File]:
    """The site's prompts, which are nobody's business but root's."""
    source = prompts.source(node.spec.smoke.prompts)
    return [File(PROMPTS, source.data(), 0o600)] if isinstance(source, SiteFile) else []


def absent_files(node: Node) -> tuple[str, ...]:
    """Prompts of an earlier configuration."""
    return () if files(node) else (PROMPTS,)


def on_node(node: Node) -> tuple[str, str]:
    """The keys `prompts` and `prompts_name`; another file is another load."""
    source = prompts.source(node.spec.smoke.prompts)
    here = PROMPTS if isinstance(source, SiteFile) else node.spec.smoke.prompts
    return here, source.name
