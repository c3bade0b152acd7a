"""Where templates and states are read and where runs leave files, in a checkout and from a wheel.

A wheel carries `templates/` and the engines' locks inside the package; in a checkout they stand at
the top. What runs leave (reports, records, transactions, evidence) goes to the checkout, or to the
working directory where there is none.
"""

from __future__ import annotations

from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]
_CHECKOUT = PACKAGE.parents[1]
IN_CHECKOUT = (_CHECKOUT / "pyproject.toml").is_file() and (_CHECKOUT / "templates").is_dir()
_SHIPPED = _CHECKOUT if IN_CHECKOUT else PACKAGE
TEMPLATES = _SHIPPED / "templates"
LOCKS = _SHIPPED / "requirements"
"""Where the engines' locks lie that are shipped."""
STATES = _CHECKOUT / "tests" / "states" if IN_CHECKOUT else PACKAGE / "states"


def home() -> Path:
    """The directory that relative places of an inventory are in."""
    return _CHECKOUT if IN_CHECKOUT else Path.cwd()
