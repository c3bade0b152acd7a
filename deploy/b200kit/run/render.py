"""Strict Jinja: (template, values) -> text. An undefined variable is an error, never empty text."""

from __future__ import annotations

import json
import re
import shlex
from functools import cache

import jinja2

from b200kit.run.places import TEMPLATES

_PLAIN = re.compile(r"[A-Za-z0-9_./:=@%+,-]+")


class RenderError(ValueError):
    """A template that cannot be rendered; the message names the file, the line and the variable."""


@cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        undefined=jinja2.StrictUndefined,
        keep_trailing_newline=True,
        trim_blocks=True,
        lstrip_blocks=True,
        autoescape=False,  # noqa: S701 - unit files and configuration, not HTML
    )
    # A JSON scalar is a YAML scalar, quoted where it must be.
    environment.filters["yaml"] = json.dumps
    environment.filters["assignment"] = _assignment
    environment.filters["argument"] = _argument
    environment.filters["shell"] = shlex.quote
    return environment


def render(name: str, **values: object) -> bytes:
    """The text of templates/*name* with *values*."""
    try:
        return _environment().get_template(name).render(values).encode()
    except jinja2.TemplateError as error:
        line = getattr(error, "lineno", None)
        where = f"templates/{name}" + (f":{line}" if line else "")
        raise RenderError(f"{where}: {error.message or type(error).__name__}") from None


def _assignment(name: str, value: str) -> str:
    """One quoted assignment of a unit's Environment=: systemd splits at blanks and expands %."""
    return f'"{name}={_escaped(value)}"'


def _argument(word: str) -> str:
    """One word of a unit's Exec line, quoted where it must be; there systemd expands $, too."""
    escaped = _escaped(word).replace("$", "$$")
    return escaped if _PLAIN.fullmatch(escaped) else f'"{escaped}"'


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
