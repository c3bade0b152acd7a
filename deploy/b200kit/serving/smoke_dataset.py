"""What the smoke test sends, as a key of serving.json, and the site's own prompts on the node."""

from __future__ import annotations

from b200kit.converge.stage import Change
from b200kit.node.client.dataset import dataset
from b200kit.node.client.dataset.site_file import SiteFile
from b200kit.node.state import drift
from b200kit.node.state.drift import File
from b200kit.node.state.serving import DatasetPlan
from b200kit.run.node import Node

PROMPTS = "/etc/b200kit/prompts.jsonl"


def files(node: Node) -> list[File]:
    """The site's prompts, which are nobody's business but root's."""
    source = dataset.source(node.spec.smoke.prompts)
    return [File(PROMPTS, source.data(), 0o600)] if isinstance(source, SiteFile) else []


def absent_files(node: Node) -> tuple[str, ...]:
    """Prompts of an earlier configuration."""
    return () if files(node) else (PROMPTS,)


def plan(node: Node) -> list[Change]:
    """Remove those of an earlier configuration."""
    left = [path for path in absent_files(node) if drift.is_present(path, node.state or {})]
    return [Change(f"remove {path}", _remove) for path in left]


def _remove(node: Node) -> None:
    node.connected().run(f"rm -f {PROMPTS}")


def dataset_plan(node: Node) -> DatasetPlan:
    """The key `smoke.dataset`."""
    smoke = node.spec.smoke
    source = dataset.source(smoke.prompts)
    return DatasetPlan(
        prompts=PROMPTS if isinstance(source, SiteFile) else smoke.prompts,
        named=source.name,
        prefix_share=smoke.prefix_share,
        prefix_requests=smoke.prefix_requests,
        turns=smoke.turns,
    )
