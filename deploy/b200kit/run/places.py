"""Where templates and states are read and where runs leave files, in a checkout and from a wheel.

A wheel carries `templates/` and the engines' locks inside the package; in a checkout they stand at
the top. What runs leave (reports, records, transactions, evidence) goes to the checkout, or to the
working directory where there is none. There they have file names that no name of a host breaks.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]
_CHECKOUT = PACKAGE.parents[1]
IN_CHECKOUT = (_CHECKOUT / "pyproject.toml").is_file() and (_CHECKOUT / "templates").is_dir()
_SHIPPED = _CHECKOUT if IN_CHECKOUT else PACKAGE
TEMPLATES = _SHIPPED / "templates"
LOCKS = _SHIPPED / "requirements"
"""Where the engines' locks lie that are shipped."""
STATES = _CHECKOUT / "tests" / "states" if IN_CHECKOUT else PACKAGE / "states"
RESERVED = frozenset({"audit"})
"""Names that no node may have: a file beside those of nodes has it (reprovision/ledger.py)."""
_LONGEST = 60
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]")


def home() -> Path:
    """The directory that relative places of an inventory are in."""
    return _CHECKOUT if IN_CHECKOUT else Path.cwd()


def safe_name(name: str) -> str:
    """Return `name` as a file name; one that had to change gets a digest, so none collide.

    The file name of a file name is itself.
    """
    safe = _UNSAFE.sub("_", name).lstrip(".")
    if safe == name and 0 < len(safe) <= _LONGEST:
        return safe
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{safe[: _LONGEST - 9] or 'unnamed'}-{digest}"
