"""YAML on a node: tables that come with b200kit, and files of other programs.

Every scalar is a text. Tables lie in the program as JSON (b200kit/run/zipapp.py), which is read in
a tenth of the time; PyYAML in pure Python travels with it for the rest.
"""

from __future__ import annotations

import pkgutil
from typing import Any

from b200kit.node.lib import documents


def load(package: str, name: str) -> Any:
    """The table NAME.yaml beside a module of *package*."""
    try:
        packed = pkgutil.get_data(package, f"{name}.json")
    except OSError:
        import yaml

        # Of what comes with b200kit: libyaml, where it is, nests without a limit.
        loader = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
        text = pkgutil.get_data(package, f"{name}.yaml") or b""
        return yaml.load(text, Loader=loader)  # noqa: S506 - texts alone
    return documents.parse(packed or b"", documents.LARGE)


def parse(text: str) -> Any:
    """The one document of *text*; an empty one is {}. Raises ValueError."""
    # Not for everybody: it takes 20 ms (measured).
    import yaml

    try:
        return yaml.load(text, Loader=yaml.BaseLoader) or {}  # noqa: S506 - texts alone
    except yaml.YAMLError as error:
        raise ValueError(" ".join(str(error).split())) from None
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
