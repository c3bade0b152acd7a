"""The pictures of the documentation: `make screenshots` writes docs/images/ anew.

They are taken of recorded nodes and of the tests' own runs, whose figures are made up, at fixed
times, so that a picture changes only where what is shown does. Pages need a Chromium.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from unittest.mock import patch

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

from b200kit import cli
from b200kit.node.checks.judge import judge
from b200kit.node.lib.documents import unstructure
from b200kit.report.html import fleet_page
from b200kit.report.html.page import render
from b200kit.report.terminal.page import lines
from tests.unit import states
from tests.unit.report import fleets, pages, records

IMAGES = Path(__file__).resolve().parents[1] / "docs/images"
WIDTH = 100
BROWSER = shutil.which("chromium") or shutil.which("google-chrome")
# The fonts that rich names lie on another server.
_SVG = re.sub(r"@font-face \{\{.*?\}\}", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)
_SCRIPT = re.compile(r"<script>.*?</script>|<meta[^>]*refresh[^>]*>", re.DOTALL)


def terminals() -> dict[str, str]:
    """Name of a picture to what a terminal shows, as SVG."""
    judged = ["judge", "--example", "gpu2-no-nvlink"]
    live = lines(records.record(n01=_live()), width=WIDTH, colour=True)
    return {
        "judge": _svg(f"b200 {' '.join(judged)}", _printed(judged)),
        "deploy": _svg("b200 deploy", live),
    }


def web_pages() -> dict[str, tuple[str, tuple[int, int]]]:
    """Name of a picture to its page, as HTML, and the size of the window."""
    unfit = states.recorded("gpu2-no-nvlink")
    found = unstructure(judge(states.expectation(), unfit))
    broken = records.live(outcome="unfit", state=unfit, verdict=found, smoke=None, layout=[],
                          stages=[], expectation=states.expectation(), changes=0)  # fmt: skip
    return {
        "report-unfit": (render(records.record("check.py", n02=broken)), (1100, 700)),
        "report-live": (render(records.record(n01=_live())), (1100, 1040)),
        # Its script would say that the page is old.
        "fleet": (_SCRIPT.sub("", fleet_page.page(fleets.mixed())), (1100, 860)),
    }


def _live() -> records.Json:
    state, expected = states.healthy(), states.expectation()
    cpus = ("2-55,114-167", "58-111,170-223")
    layout = [{**replica, "cpus": cpus[replica["replica"]]} for replica in records.live()["layout"]]
    return records.live(
        smoke=records.smoke() | {"requests": pages.requests()}, layout=layout,
        state=state, expectation=expected, verdict=unstructure(judge(expected, state)),
        endpoint={"url": "http://127.0.0.1:8000/v1", "model": "tiny-llama", "local": True,
                  "api_key": True},
    )  # fmt: skip


def _printed(arguments: list[str]) -> list[str]:
    """What a command prints on a terminal with colour."""
    terminal = {"FORCE_COLOR": "1", "B200_WIDTH": str(WIDTH)}
    with patch.dict(os.environ, terminal), contextlib.redirect_stdout(io.StringIO()) as out:
        cli.main(arguments)
    return out.getvalue().splitlines()


def _svg(command: str, shown: Iterable[str]) -> str:
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True)
    console.print(Text.from_ansi("\n".join([f"$ {command}", *shown])))
    return console.export_svg(
        title="b200kit", theme=MONOKAI, code_format=_SVG, unique_id=command.split()[1]
    )


def photograph(html: str, size: tuple[int, int], picture: Path) -> None:
    """A page as PNG, in a window of *size*; raises CalledProcessError."""
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "page.html"
        page.write_text(html, encoding="utf-8")
        argv = [
            str(BROWSER), "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run",
            "--hide-scrollbars", "--force-device-scale-factor=1", "--force-color-profile=srgb",
            f"--user-data-dir={folder}/profile", f"--window-size={size[0]},{size[1]}",
            "--host-resolver-rules=MAP * ~NOTFOUND", f"--screenshot={picture}", page.as_uri(),
        ]  # fmt: skip
        subprocess.run(argv, check=True, capture_output=True, timeout=120)


def main() -> int:
    """Write every picture."""
    if BROWSER is None:
        print("no Chromium on this machine: apt-get install chromium", file=sys.stderr)
        return 1
    IMAGES.mkdir(exist_ok=True)
    for name, svg in terminals().items():
        (IMAGES / f"{name}.svg").write_text(svg, encoding="utf-8")
    for name, (html, size) in web_pages().items():
        photograph(html, size, IMAGES / f"{name}.png")
    return 0


if __name__ == "__main__":
    sys.exit(main())
