"""The templates of pages: everything that they put out is escaped, and printed as itself."""

from __future__ import annotations

from functools import cache

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template
from markupsafe import Markup

from b200kit.node.lib.readings import printable
from b200kit.run.places import TEMPLATES


@cache
def template(name: str) -> Template:
    """The template of a page, such as "report/report.html.j2"."""
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        finalize=_shown,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(name)


def _shown(value: object) -> object:
    """What a template puts out: markup as it is, other text without what is not printed."""
    is_text = isinstance(value, str) and not isinstance(value, Markup)
    return printable(str(value)) if is_text else value
