"""serving.json as the commands of the node program use it: with the API key and the prompts.

The key comes from systemd's credentials directory where the program runs inside the unit, else from
the file that the document names.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from b200kit.node.client.chat import Endpoint
from b200kit.node.client.golden import reference
from b200kit.node.client.golden.reference import Reference
from b200kit.node.client.prompts import PromptSource, source
from b200kit.node.lib import documents
from b200kit.node.lib.documents import Malformed
from b200kit.node.state import serving
from b200kit.node.state.serving import ServedReplica


class ConfigError(Exception):
    """The configuration cannot be used; the text says which file and key, on one line."""


@dataclass(frozen=True)
class ServingConfig(serving.Serving):
    """What this node serves, with the key that its clients send."""

    api_key: str | None = field(default=None, repr=False, metadata={"document": False})

    @cached_property
    def prompts(self) -> PromptSource:
        """What the smoke test sends. Raises ConfigError where it cannot be read."""
        name = self.smoke.prompts
        try:
            return source(name)
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else error
            raise ConfigError(f"smoke.prompts {name}: {why}") from error

    def reference(self) -> Reference | None:
        """What this node's replicas should answer; None where nothing is known for it."""
        return reference.of_node(self.golden_for, self.smoke.golden_tokens)

    def replica(self, index: int) -> ServedReplica:
        """The replica of this index. Raises ConfigError when there is none."""
        for replica in self.replicas:
            if replica.index == index:
                return replica
        raise ConfigError(f"serving configuration has no replica {index}")

    def endpoint(self, url: str) -> Endpoint:
        """An endpoint with this node's key."""
        return Endpoint(url, self.api_key, self.gateway_trust if url.startswith("https:") else None)


def load(path: Path) -> ServingConfig:
    """Read the document and the key. Raises ConfigError with one line that names file and key."""
    try:
        found = documents.load(ServingConfig, path)
    except FileNotFoundError as error:
        raise ConfigError(f"{path}: {error.strerror}") from error
    except Malformed as error:
        raise ConfigError(str(error)) from error
    try:
        key = _api_key(found.api_key_file)
    except OSError as error:
        where = f"{path}: api_key_file {found.api_key_file}"
        raise ConfigError(f"{where}: {error.strerror}") from error
    # A replica that works for another node answers nobody.
    headless = found.group is not None and found.group.headless
    return replace(found, api_key=key, replicas=() if headless else found.replicas)


def _api_key(key_file: str | None) -> str | None:
    """The key's text: from the unit's credentials, else the file; None when none is configured."""
    directory = os.environ.get("CREDENTIALS_DIRECTORY")
    credential = Path(directory, "api_key") if directory else None
    if credential and credential.exists():
        return credential.read_text().strip()
    return Path(key_file).read_text().strip() if key_file else None
