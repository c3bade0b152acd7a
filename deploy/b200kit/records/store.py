"""Records in the site's store: what was measured, accepted, answered and compared."""

from __future__ import annotations

import json
from dataclasses import dataclass

from b200kit.node.lib.documents import Malformed, unstructure
from b200kit.records import entries
from b200kit.records.entries import AnyEntry, Record
from b200kit.records.tuning import AnyLine, line_of
from b200kit.store.database import SITE, Store

RUNS, GOLDEN, QUALITY, _TUNING = "record", "golden", "quality", "tuning"


@dataclass(frozen=True)
class Records:
    """One log of records: of nodes, or of what golden answers and comparisons hold for."""

    log: str = RUNS
    store: Store = SITE

    def names(self) -> list[str]:
        """What there are records of, sorted."""
        return self.store.subjects(self.log)

    def read(self, name: str) -> Record:
        """A record, empty where there is none. Raises StoreError."""
        found = []
        for line in self.store.read(self.log, name):
            try:
                found.append(entries.parse(line.text, line.digest))
            except Malformed as error:
                raise self.store.name_damage(f"line {line.number}, about {name}: {error}") from None
        return Record(tuple(found))

    def append(self, name: str, entry: AnyEntry) -> bool:
        """Add an entry; False when this very measurement or answer is in it. Raises StoreError."""
        with self.store.writing():
            if self.read(name).holds(entry):
                return False
            self.store.append(self.log, name, json.dumps(unstructure(entry), sort_keys=True))
            return True


def tuning_of(node: str) -> list[AnyLine]:
    """The lines of a node's tuning, oldest first. Raises StoreError."""
    found = []
    for line in SITE.read(_TUNING, node):
        try:
            found.append(line_of(line.text))
        except Malformed as error:
            raise SITE.name_damage(f"line {line.number}, about {node}: {error}") from None
    return found


def add_to_tuning(node: str, line: AnyLine) -> None:
    """Add a line to a node's tuning. Raises StoreError."""
    SITE.append(_TUNING, node, json.dumps(unstructure(line), sort_keys=True))
