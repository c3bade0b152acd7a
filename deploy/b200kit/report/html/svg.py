"""SVG by hand: escaped elements and text, coloured only through the page's classes."""

from __future__ import annotations

import html

from b200kit.node.lib.readings import printable


def escape(content: str) -> str:
    """Return text as markup that shows it, without anything that is not printed as itself."""
    return html.escape(printable(content))


def el(name: str, /, *children: str, **attributes: object) -> str:
    """Return one element; `children` are markup, attribute values are escaped.

    A trailing or inner underscore in an attribute's name stands for nothing or a hyphen
    (``class_``, ``stroke_width``).
    """
    given = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(_number(value))}"'
        for key, value in attributes.items()
    )
    return f"<{name}{given}>{''.join(children)}</{name}>"


def text(x: float, y: float, content: str, class_: str = "", anchor: str = "start") -> str:
    """Return a line of text with its baseline at (x, y), escaped."""
    return el("text", escape(content), x=x, y=y, class_=class_, text_anchor=anchor)


def line(x1: float, y1: float, x2: float, y2: float, class_: str) -> str:
    """Return a straight line."""
    return el("line", x1=x1, y1=y1, x2=x2, y2=y2, class_=class_)


def box(x: float, y: float, width: float, height: float, class_: str, radius: float = 6) -> str:
    """Return a rectangle with round corners."""
    return el("rect", x=x, y=y, width=width, height=height, rx=radius, class_=class_)


def group(*children: str, tip: str = "", class_: str = "") -> str:
    """Return a group, with a tip that a pointer or a screen reader finds."""
    title = el("title", escape(tip)) if tip else ""
    return el("g", title, *children, class_=class_)


def picture(
    width: float,
    height: float,
    label: str,
    *children: str,
    class_: str,
    least: float,
    most: float,
    description: str = "",
) -> str:
    """Return a whole picture, named by `label`; it scales between `least` and `most` pixels.

    `description` is for readers who do not see the picture.
    """
    return el(
        "svg",
        el("title", escape(label)),
        el("desc", escape(description or label)),
        *children,
        viewBox=f"0 0 {_number(width)} {_number(height)}",
        role="img",
        class_=class_,
        style=f"min-width:{least:.0f}px;max-width:{most:.0f}px",
    )


def clip(content: str, width: float, per_character: float = 6.4) -> str:
    """Return `content` cut to what fits in `width` at the given width a character."""
    room = max(int(width / per_character), 3)
    return content if len(content) <= room else f"{content[: room - 1]}…"


def _number(value: object) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)
