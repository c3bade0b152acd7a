"""Where templates and states are read and where runs leave files, in a checkout and from a wheel.

A wheel carries entry files, `templates/` and the engines' locks inside the package; in a checkout
they stand at the top. What runs leave (reports, records, transactions, evidence) belongs to the
site: the directory above `inventories/`, found from the working directory upwards, as git finds a
repository. There they have file names that no name of a host breaks.
"""

from __future__ import annotations

import hashlib
import os
import re
import sys
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]
CHECKOUT = PACKAGE.parents[1]
IN_CHECKOUT = (CHECKOUT / "pyproject.toml").is_file() and (CHECKOUT / "templates").is_dir()
_SHIPPED = CHECKOUT if IN_CHECKOUT else PACKAGE
TEMPLATES = _SHIPPED / "templates"
LOCKS = _SHIPPED / "requirements"
"""Where the engines' locks lie that are shipped."""
ENTRIES = CHECKOUT / "deploy" if IN_CHECKOUT else PACKAGE / "entries"
"""Where the files lie that pyinfra executes."""
STATES = CHECKOUT / "tests" / "states" if IN_CHECKOUT else PACKAGE / "states"
CORPUS = CHECKOUT / "tests" / "corpus" if IN_CHECKOUT else PACKAGE / "corpus"
"""Faults that each check must find, with the action it must ask for."""
SCENARIOS = CHECKOUT / "tests" / "scenarios"
"""The simulated nodes of the lab, which only a checkout has."""
RUNBOOK = CHECKOUT / "docs" / "runbook.md" if IN_CHECKOUT else PACKAGE / "runbook.md"
SITE, INVENTORIES = "B200_SITE", "inventories"
_LONGEST = 60
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]")


class NoSite(Exception):
    """The working directory belongs to no site, in one line."""


def programs() -> str:
    """Where programs of the controller are looked for: in PATH, and beside `b200`, where b200-slurm
    and others are installed, whether or not that is in PATH.
    """
    return f"{os.environ.get('PATH', os.defpath)}:{Path(sys.executable).parent}"


def site() -> Path | None:
    """The site: what B200_SITE names, or the nearest directory upwards that has inventories."""
    if named := os.environ.get(SITE):
        return Path(named)
    here = Path.cwd()
    return next((each for each in (here, *here.parents) if (each / INVENTORIES).is_dir()), None)


def home() -> Path:
    """The directory that relative places of an inventory are in; raises NoSite."""
    found = site()
    if found is not None and not found.is_dir():
        raise NoSite(f"{SITE} names {found}, which is no directory")
    if found is None:
        raise NoSite(
            f"no site here: {Path.cwd()} is below no directory with {INVENTORIES}/; go to your "
            f"site, or name it in {SITE}"
        )
    return found


def site_of(inventory: Path) -> Path:
    """The site that an inventory's file belongs to."""
    folder = inventory.absolute().parent
    above = (each.parent for each in (folder, *folder.parents) if each.name == INVENTORIES)
    return next(above, folder)


def safe_name(name: str) -> str:
    """Return `name` as a file name; one that had to change gets a digest, so none collide.

    The file name of a file name is itself.
    """
    safe = _UNSAFE.sub("_", name).lstrip(".")
    if safe == name and 0 < len(safe) <= _LONGEST:
        return safe
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{safe[: _LONGEST - 9] or 'unnamed'}-{digest}"
