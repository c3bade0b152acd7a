"""Release files, what is left out of a repository, and where Debian comes from."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from tests.lab.paths import LabError
from tests.lab.supply.debian import archives_of, debian_sources, parse_deb822, parse_one_line
from tests.lab.supply.systems import DEFAULT, NEWER, System
from tests.messages import raises_message
from tests.subtests import in_subtests

NOW = datetime(2026, 11, 21, 9, 5, 7, tzinfo=UTC)
INDEXES = {"Packages": b"Package: a\n", "Packages.gz": b"zz"}


def test_one_line_sources_are_read_with_options_and_comments() -> None:
    text = "# deb http://x/debian old main\ndeb [signed-by=/k] http://x/debian bookworm main # c\n"
    assert parse_one_line(text + "deb-src http://x/debian bookworm main\n") == [
        ("http://x/debian", "bookworm")
    ]


def test_deb822_sources_are_read_and_disabled_ones_are_not() -> None:
    text = (
        "Types: deb deb-src\n# URIs: http://no/debian\nURIs: http://x/debian/\n"
        "Suites: bookworm bookworm-updates\nComponents: main\n\n"
        "Types: deb\nURIs: http://y/debian\nSuites: bookworm\nEnabled: no\n"
    )
    assert parse_deb822(text) == [
        ("http://x/debian/", "bookworm"),
        ("http://x/debian/", "bookworm-updates"),
    ]


PAIRS = [
    ("http://x/debian-security", "bookworm-security"),
    ("http://vendor/tools", "bookworm"),
    ("http://x/debian/", "bookworm"),
    ("http://x/debian", "bookworm"),
    ("http://x/debian", "bookworm-backports"),
]


@in_subtests("more", [[], [("http://y/debian", "sid")]])
@in_subtests("system", [DEFAULT, NEWER])
def test_a_systems_archives_are_on_the_mirror_that_this_machine_has_the_main_suite_first(
    system: System, more: list[tuple[str, str]]
) -> None:
    assert archives_of(system, PAIRS + more) == [
        ("http://x/debian", system.suite),
        ("http://x/debian-security", f"{system.suite}-security"),
    ]


def test_a_mirror_of_that_very_system_comes_before_another_ones() -> None:
    newer = ("http://y/debian", "trixie")
    assert archives_of(NEWER, [*PAIRS, newer]) == [newer]
    assert newer[0] not in dict(archives_of(DEFAULT, [*PAIRS, newer]))


def test_sources_come_from_the_machines_own_files(tmp_path: Path) -> None:
    (tmp_path / "sources.list.d").mkdir()
    (tmp_path / "sources.list").write_text("deb http://x/debian bookworm main\n")
    (tmp_path / "sources.list.d/vendor.list").write_text("deb http://v/tools bookworm main\n")
    assert debian_sources(DEFAULT, tmp_path) == ["deb http://x/debian bookworm main"]


def test_a_machine_without_a_debian_mirror_is_refused(tmp_path: Path) -> None:
    with raises_message(LabError):
        debian_sources(DEFAULT, tmp_path)
