"""A report of every host, whatever one of them holds: what cannot be shown is left out, by name.

A record has what nodes said: numbers of any size, texts of any depth. A view that raises over one
host must not cost the others theirs.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import TypeVar

from b200kit.report.document import clean, mapping
from b200kit.report.outcome import hosts_of

T = TypeVar("T")
# What is left out of a host that cannot be shown, until it can: most likely first.
_PARTS = ("smoke", "record", "diagnosis", "tuning", "state", "layout", "verdict", "expectation")
_OURS = ("outcome", "stage", "commands", "changes")
logger = logging.getLogger(__name__)


def shown(record: object, view: Callable[[object], T]) -> T:
    """The view of a record, less the parts of hosts that make it raise."""
    try:
        return view(record)
    except Exception:
        logger.debug("a host of the record cannot be shown", exc_info=True)
    run = mapping(record)
    hosts = {name: _showable(run, name, host, view) for name, host in hosts_of(record).items()}
    return view({**run, "hosts": hosts})


def _showable(
    run: Mapping[str, object], name: str, host: object, view: Callable[[object], object]
) -> object:
    """The host as it is, without some of its parts, or with no more than how it ended."""
    left, why = host, ""
    for part in ("", *_PARTS):
        known = mapping(left)
        if part and part not in known:
            continue
        if part:
            left = {**known, part: {"unmeasured": f"{part} cannot be shown: {why}"}}
        try:
            view({**run, "hosts": {name: left}})
        except Exception as error:
            why = clean(f"{type(error).__name__}: {error}")[:200]
        else:
            return left
    ended = {key: value for key, value in mapping(host).items() if key in _OURS}
    return {**ended, "error": f"its record cannot be shown: {why}"}
