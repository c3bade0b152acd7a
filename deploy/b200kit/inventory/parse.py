"""From a node's inventory data to its spec, or every problem in it. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from b200kit.catalog.types import Catalogue
from b200kit.inventory import defaults, rules, source
from b200kit.inventory.keys.problem import Problem, parse_keys
from b200kit.inventory.spec import NodeSpec


def parse(data: Mapping[str, object], catalogue: Catalogue) -> NodeSpec | list[Problem]:
    """The node's spec, or every problem in *data* (all at once, for one edit)."""
    spec = parse_keys(NodeSpec, data)
    if isinstance(spec, list):
        return spec
    of_source = source.problems(spec, catalogue)
    sourced = source.resolved(spec, catalogue)
    resolved, problems = defaults.resolve_defaults(sourced, catalogue)
    return [*of_source, *problems, *rules.problems(resolved, catalogue)] or resolved
