"""Published config.json files and what others say of them: tests/data/model_configs, one a model.

`config` is as it is published, without keys that change no size and with one module a layer of its
lists of exceptions; `beside` what ModelOpt wrote in a second file; `source` where it is from, or
how it was put together; and `truth` with the source of each figure, or `unmeasured` with the reason
why it must be refused. A file that is `like` another one says what differs, null for what the other
has alone (RFC 7396).
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[2] / "data" / "model_configs"


@cache
def stored(name: str) -> dict[str, Any]:
    """The document of a model, whole."""
    document: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    like = document.pop("like", None)
    return _merged(stored(like), document) if like else document


def _merged(base: Any, changes: Any) -> Any:
    if not (isinstance(base, dict) and isinstance(changes, dict)):
        return changes
    both = {key: _merged(base.get(key), value) for key, value in changes.items()}
    return {key: value for key, value in (base | both).items() if changes.get(key, 0) is not None}
