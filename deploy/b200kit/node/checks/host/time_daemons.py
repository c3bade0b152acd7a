"""Services that set the clock. Pure data.

A node has one of them: two steer against each other. Which one is the site's choice; where none
runs, systemd-timesyncd does, which every supported system has.
"""

from __future__ import annotations

from collections.abc import Mapping

DEFAULT = "systemd-timesyncd.service"
CHRONY = "chrony.service"
SERVICES = (
    CHRONY,
    "chronyd.service",
    "ntp.service",
    "ntpd.service",
    "ntpsec.service",
    "openntpd.service",
    DEFAULT,
)
"""Their units on Debian and Ubuntu; chronyd.service is an alias, found where somebody made it one.

PTP is not among them: phc2sys sets the clock only where it was configured to, and its unit does not
say so; a node with PTP alone says clock_synchronized = False, or runs chrony over its PHC.
"""


def installed(units: Mapping[str, object]) -> list[str]:
    """The services that are there, the default last, which can always be."""
    found = [name for name in SERVICES if _says(units.get(name), "load", "loaded")]
    return [*(name for name in found if name != DEFAULT), DEFAULT]


def _says(unit: object, key: str, value: str) -> bool:
    return isinstance(unit, Mapping) and unit.get(key) == value


def running(units: Mapping[str, object]) -> list[str]:
    """The services that run, each once: an alias has the process of the unit it names."""
    found: dict[object, str] = {}
    for name in SERVICES:
        unit = units.get(name)
        if isinstance(unit, Mapping) and _says(unit, "active", "active"):
            found.setdefault(unit.get("main_pid") or name, name)
    return list(found.values())
