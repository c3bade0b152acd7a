"""The hook: a command hears of each event, and nothing it does holds anybody up."""

from __future__ import annotations

import ctypes
import shlex
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from b200kit.node.lib import documents
from b200kit.node.lib.boot_clock import Moment
from b200kit.node.state.agent import AgentState
from b200kit.node.state.event import Event
from b200kit.node.status import hook
from b200kit.node.status.hook import TRIES, Hook, HookPlan

NOW, EARLIER = Moment("boot-a", 5000.0), Moment("boot-a", 4000.0)


@dataclass
class Told:
    """A site that takes what it is told, but for the events that it *refuses* so often."""

    folder: Path
    refuses: dict[str, int] = field(default_factory=dict)
    heard: list[str] = field(default_factory=list)
    waits: list[float] = field(default_factory=list)

    def run(self, event: Event) -> str | None:
        if self.refuses.get(event.summary, 0) > 0:
            self.refuses[event.summary] -= 1
            return "it exited 1"
        self.heard.append(event.summary)
        return None

    def write(self, *abouts: str, first: int = 1, at: Moment = EARLIER) -> None:
        """The agent's file with some events."""
        events = [
            Event("fault.over", about).stamped(n, "then", "n01", at)
            for n, about in enumerate(abouts, first)
        ]
        last = first + len(abouts) - 1
        state = AgentState(
            "n01", "1", "boot-a", 1.0, "then", {}, 60.0, events=tuple(events), last_event=last
        )
        new = self.folder / "new"
        new.write_bytes(documents.to_bytes(state))
        new.replace(self.folder / "agent.json")

    def follow(self, rounds: int = 1) -> Hook:
        """A hook that has just started, for so many looks at the file."""
        left = iter(range(rounds))
        one = Hook(
            self.run, self.folder / "agent.json", self.folder / "told.json",
            clock=lambda: NOW, wait=self.waits.append,
        )  # fmt: skip
        one.follow(lambda: next(left, None) is not None)
        return one


@pytest.fixture
def site(tmp_path: Path) -> Told:
    return Told(tmp_path)


def test_what_comes_after_its_first_start_is_told_once_and_in_order(site: Told) -> None:
    site.write("before")
    site.follow()
    site.write("before", "a", "b")
    site.follow()
    site.follow()
    site.write("before", "a", "b", "c")
    site.follow()
    assert site.heard == ["a", "b", "c"]


def test_what_is_refused_is_told_again_and_holds_nobody_up_for_ever(
    site: Told, capsys: pytest.CaptureFixture[str]
) -> None:
    site.write("x")
    site.follow()
    site.refuses = {"a": 2, "b": 99}
    site.write("x", "a", "b", "c")
    site.follow()
    assert site.heard == ["a", "c"]
    assert site.waits[1:3] == [1.0, 2.0]
    assert site.refuses["b"] == 99 - TRIES
    assert "(fault.over) is dropped: 8 times: it exited 1" in capsys.readouterr().err


def test_a_day_is_counted_by_the_clock_of_the_boot(
    site: Told, capsys: pytest.CaptureFixture[str]
) -> None:
    site.write("x")
    site.follow()
    site.write("x", "old", at=Moment(NOW.boot_id, NOW.seconds - hook.OLDEST_S - 1))
    site.follow()
    assert site.heard == []
    # Of how long ago a boot before was, its clock says nothing.
    site.write("x", "old", "before", at=Moment("boot-0", NOW.seconds - hook.OLDEST_S - 1))
    site.follow()
    assert site.heard == ["before"]
    assert "is dropped: it is a day old" in capsys.readouterr().err


def test_of_a_storm_what_is_there_no_longer_is_counted(
    site: Told, capsys: pytest.CaptureFixture[str]
) -> None:
    site.write("x")
    site.follow()
    site.write("y", "z", first=1000)
    site.follow()
    assert site.heard == ["y", "z"]
    assert "998 events are dropped" in capsys.readouterr().err


@pytest.mark.parametrize("damage", ["", "{"])
def test_a_damaged_file_tells_nothing_and_a_count_that_began_again_is_followed(
    site: Told, damage: str
) -> None:
    site.write("a", "b", "c")
    site.follow()
    (site.folder / "agent.json").write_text(damage)
    site.follow()
    site.write("new")
    site.follow()
    assert site.heard == ["new"]


def test_what_cannot_be_noted_is_told_all_the_same(site: Told) -> None:
    site.write("x")
    site.follow()
    (site.folder / "told.json").unlink()
    (site.folder / "told.json").mkdir()
    one = site.follow()
    one.told = 1
    site.write("x", "a")
    for event in [*one.due()]:
        one.tell(event)
    assert site.heard == ["a"]


EVENT = Event("fault.over", "GPU 3 is well").stamped(7, "then", "n01", NOW)


@pytest.fixture
def command(tmp_path: Path) -> Iterator[Callable[..., str | None]]:
    """Tell a shell script of an event; its folder is $HERE."""

    def told(script: str, deadline_s: float = 30.0) -> str | None:
        words = ("/bin/sh", "-c", f"export HERE={shlex.quote(str(tmp_path))}; {script}")
        return hook.run(HookPlan(words, deadline_s), EVENT)

    yield told
    ctypes.CDLL(None).prctl(36, 0, 0, 0, 0)


def test_the_command_gets_the_event_as_one_line_of_json(
    command: Callable[..., str | None], tmp_path: Path
) -> None:
    assert command("cat > $HERE/got") is None
    lines = (tmp_path / "got").read_text().splitlines()
    assert documents.decode(Event, lines[0]) == EVENT
    assert len(lines) == 1


@pytest.mark.parametrize(
    ("script", "problem"),
    [
        ("exit 3", "exited 3"),
        ("sleep 600", "took more than"),
        ("exec < /dev/null; exit 0", None),
        ("yes > /dev/stdout; exit 0", "took more than"),
    ],
)
def test_one_that_fails_hangs_or_floods_is_told_off(
    command: Callable[..., str | None], script: str, problem: str | None
) -> None:
    said = command(script, 0.5 if problem and "took" in problem else 30.0)
    assert problem in said if problem and said else said is problem


def living(folder: Path) -> list[str]:
    """The processes that have a folder in their environment."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if str(folder).encode() in (process / "environ").read_bytes():
                found.append(process.name)
    return found


@pytest.mark.parametrize(
    "starts",
    ["sleep 600 &", "setsid sleep 600 &", "(setsid sh -c 'sleep 600 & sleep 600' &);"],
)
def test_what_it_started_ends_with_it(
    command: Callable[..., str | None], tmp_path: Path, starts: str
) -> None:
    with subprocess.Popen(["/bin/sleep", "60"]) as another:
        before = hook._children()
        assert command(f"{starts} exit 0") is None
        assert hook._children() == before
        assert another.poll() is None
        another.kill()
    assert not living(tmp_path)


def test_a_program_that_is_not_there_is_a_line() -> None:
    said = hook.run(HookPlan(("/no/such/program",)), EVENT)
    assert said == "/no/such/program: No such file or directory"
