"""The front of pyinfra: which inventory, what is refused before a run, what it hears of one."""

from __future__ import annotations

import io
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from b200kit import cli
from b200kit.cli import deploys
from b200kit.cli.command import USAGE
from b200kit.cli.entry_run import EntryRun
from b200kit.node.lib.documents import Malformed
from b200kit.report.terminal.progress import LiveProgress, PlainProgress
from b200kit.run import console, places, remote

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def inventories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a site's inventories, where the test stands."""
    folder = tmp_path / "inventories"
    folder.mkdir()
    monkeypatch.delenv(places.SITE, raising=False)
    monkeypatch.chdir(tmp_path)
    return folder


@pytest.mark.parametrize(
    ("there", "chosen"), [(["a.py"], "a.py"), (["prod.py", "test.py"], "prod.py")]
)
def test_inventory_is_the_only_one_or_prod(
    inventories: Path, there: list[str], chosen: str
) -> None:
    for name in there:
        (inventories / name).touch()
    assert deploys.inventory_of(None) == inventories / chosen


@pytest.mark.parametrize("there", [[], ["a.py", "b.py"]])
def test_no_inventory_is_guessed(inventories: Path, there: list[str], capsys: Capture) -> None:
    for name in there:
        (inventories / name).touch()
    assert cli.main(["deploy"]) == USAGE
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize("file", ["prod.py", "group_data/all.py"])
def test_inventory_that_is_no_python_is_one_line(
    inventories: Path, file: str, capsys: Capture
) -> None:
    (inventories / "group_data").mkdir()
    (inventories / "prod.py").write_text("nodes = []\n")
    (inventories / file).write_text("\nnodes = [\n")
    assert cli.main(["ready"]) == 1
    said = capsys.readouterr().err
    assert (said.count("\n"), f"{inventories / file}:2:" in said) == (1, True)


@pytest.mark.parametrize(("code", "exits"), [(0, 1), (3, 1), (130, 130)])
def test_code_of_a_run_that_said_nothing_is_none_of_a_run(
    inventories: Path, code: int, exits: int, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    """As of an inventory that calls sys.exit before it attaches anything."""
    (inventories / "prod.py").touch()
    ends = f"import sys; print('--> Loading inventory...', file=sys.stderr); sys.exit({code})"
    monkeypatch.setattr(EntryRun, "_words", lambda *_: [sys.executable, "-S", "-c", ends])
    assert cli.main(["ready"]) == exits
    assert str(inventories / "prod.py") in capsys.readouterr().err


def test_a_run_gets_its_password_by_its_environment_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = EntryRun(tmp_path / "prod.py", "b200.py", ("n01", "n02"), password="hunter2hunter2")
    assert "hunter2" not in " ".join(run._words(dry=False))
    assert run._environment(5)["B200_SUDO_PASSWORD"] == "hunter2hunter2"
    assert run._words(dry=False)[-5:] == ["-y", "--limit", "n01", "--limit", "n02"]
    assert run._words(dry=True)[-5] == "--dry"
    monkeypatch.setattr(remote, "given_password", "from-the-variable")
    given = EntryRun(tmp_path / "prod.py", "b200.py")._environment(5)
    assert given["B200_SUDO_PASSWORD"] == "from-the-variable"


def test_removal_names_its_nodes_and_what_goes_with_the_kit(
    inventories: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (inventories / "prod.py").write_text("nodes = []\n")
    ran: list[Any] = []

    def go(run: EntryRun, **_: Any) -> int:
        ran.append(run.data)
        return 0

    monkeypatch.setattr(EntryRun, "go", go)
    assert cli.main(["remove", "-y"]) == USAGE
    assert cli.main(["remove", "-y", "n01"]) == 0
    assert cli.main(["remove", "-y", "n01", "--weights", "--purge-driver"]) == 0
    assert cli.main(["deploy", "n01", "--data", "passport=renew"]) == 0
    assert cli.main(["deploy", "n01", "--data", "passport"]) == USAGE
    assert ran == [[], ['remove=["driver", "weights"]'], ["passport=renew"]]


@pytest.mark.parametrize(
    ("words", "entry", "nodes"),
    [
        (["check"], "check.py", ()),
        (["check", "n01"], "check.py", ("n01",)),
        (["smoke", "n01", "n02"], "smoke.py", ("n01", "n02")),
        (["check", "root@n01"], None, ()),
        (["check", "n01", "--topology"], None, ()),
    ],
)
def test_names_are_those_of_the_site_inside_one(
    inventories: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], entry: str | None,
    nodes: tuple[str, ...],
) -> None:  # fmt: skip
    (inventories / "prod.py").write_text("nodes = []\n")
    ran: list[tuple[str, Any]] = []

    def go(run: EntryRun, **_: Any) -> int:
        ran.append((run.entry, run.nodes))
        return 0

    monkeypatch.setattr(EntryRun, "go", go)
    monkeypatch.setattr("b200kit.cli.check._record", lambda *_: {"hosts": {}})
    cli.main(words)
    assert ran == ([(entry, nodes)] if entry else [])


@pytest.mark.parametrize(
    "words",
    [["smoke", "n01", "--rate", "2"], ["smoke", "http://h", "n01"], ["smoke", "http://h"]],
)
def test_options_of_an_endpoint_go_with_a_url(
    inventories: Path, words: list[str], capsys: Capture
) -> None:
    (inventories / "prod.py").touch()
    assert cli.main(words) == USAGE
    assert capsys.readouterr().err.count("\n") == 1


def test_waves_are_not_begun_where_nobody_can_be_asked(
    inventories: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    (inventories / "prod.py").write_text("nodes = []\n")
    monkeypatch.setattr("sys.stdin", io.StringIO())
    ran: list[bool] = []

    def go(_: EntryRun, *, dry: bool = False) -> int:
        ran.append(dry)
        return 0

    monkeypatch.setattr(EntryRun, "go", go)
    assert cli.main(["rollout"]) == USAGE
    assert (ran, capsys.readouterr().err.count("\n")) == ([], 1)
    assert [cli.main(["rollout", "-y"]), cli.main(["rollout", "--dry-run"])] == [0, 0]
    assert ran == [False, True]


def test_a_run_is_waited_for_however_reading_its_progress_ends(
    inventories: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    over = tmp_path / "over"
    act = "import os, time; os.write(int(os.environ['B200_FRONT']), b'nonsense\\n'); "
    act += f"time.sleep(1); open({str(over)!r}, 'w').close()"
    monkeypatch.setattr("b200kit.cli.entry_run._PYINFRA", ("-c", act))
    with pytest.raises(Malformed):
        EntryRun(inventories / "prod.py", "b200.py").go()
    assert over.exists()


MESSAGES: list[dict[str, Any]] = [
    {"done": 1, "of": 4},
    {"node": "n01", "begins": "driver"},
    {"node": "n01", "stage": "driver", "text": "... 15 s so far", "took": "", "kind": "still"},
    {"node": "n02", "stage": "gate", "text": "RED: no link", "took": "", "kind": "said"},
    {"line": "rollout  wave 1"},
]


def test_on_a_terminal_a_node_has_one_line_and_what_matters_stays() -> None:
    progress, screen = LiveProgress(), io.StringIO()
    progress._live.console = Console(file=screen, width=80)
    for message in MESSAGES:
        progress.hear(message)
    Console(file=screen, width=80).print(progress._draw())
    above, *_, drawn = screen.getvalue().partition("rollout  wave 1")
    assert ("n02" in above, "RED: no link" in above, "so far" in above) == (True, True, False)
    assert all(word in drawn for word in ("n01", "driver", "15 s so far", "n02"))
    assert progress.spoke


def test_elsewhere_every_line_comes_as_it_is(capsys: Capture) -> None:
    progress = PlainProgress()
    for message in MESSAGES:
        progress.hear(message)
    assert [line.split()[0] for line in capsys.readouterr().err.splitlines()] == [
        "n01", "n02", "rollout",
    ]  # fmt: skip


def test_what_a_run_says_goes_to_its_front_and_stands_nowhere_else(
    monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    reading, writing = os.pipe()
    monkeypatch.setattr(console, "_front", writing)
    console.err("a line\x1b[2J")
    console.begins("n01", "driver")
    console.progress("n01", "driver", "9 packages", "1 m 12 s", console.DONE)
    os.close(writing)
    with open(reading, encoding="utf-8") as pipe:
        heard = [json.loads(line) for line in pipe]
    assert [set(message) for message in heard] == [
        {"line"}, {"node", "begins"}, {"node", "stage", "text", "took", "kind"},
    ]  # fmt: skip
    assert "\x1b" not in heard[0]["line"]
    assert capsys.readouterr().err == ""


def test_completion_knows_the_commands(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    monkeypatch.setenv("_B200_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", "b200 rea")
    monkeypatch.setenv("COMP_CWORD", "1")
    assert cli.main([]) == 0
    assert capsys.readouterr().out == "plain,ready\n"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_of_each_shell_is_printed(shell: str, capsys: Capture) -> None:
    assert cli.main(["completion", shell]) == 0
    assert "_B200_COMPLETE" in capsys.readouterr().out
