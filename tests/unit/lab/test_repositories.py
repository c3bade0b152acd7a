"""Release files, what is left out of a repository, and where Debian comes from."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.lab.paths import LabError
from tests.lab.supply.aptrepo import is_left_out, release_text
from tests.lab.supply.debian import archives_of, debian_sources, parse_deb822, parse_one_line
from tests.lab.supply.gpg import parse_fingerprints
from tests.lab.supply.systems import DEFAULT, NEWER, System
from tests.messages import raises_message
from tests.subtests import in_subtests

NOW = datetime(2026, 11, 21, 9, 5, 7, tzinfo=UTC)
INDEXES = {"Packages": b"Package: a\n", "Packages.gz": b"zz"}


def test_a_release_names_its_origin_and_is_valid_for_years() -> None:
    fields = dict(
        line.split(": ", 1) for line in release_text(INDEXES, "the lab", NOW).splitlines()
        if ": " in line
    )  # fmt: skip
    assert fields["Origin"] == fields["Label"] == "the lab"
    assert fields["Suite"] == "./"
    assert fields["Date"] == "Sat, 21 Nov 2026 09:05:07 UTC"
    assert fields["Valid-Until"].endswith("2036 09:05:07 UTC")


def test_a_release_covers_every_index_by_hash_and_size() -> None:
    lines = release_text(INDEXES, "x", NOW).splitlines()
    start = lines.index("SHA256:")
    expected = [
        f" {hashlib.sha256(content).hexdigest()} {len(content)} {name}"
        for name, content in INDEXES.items()
    ]
    assert lines[start + 1 : start + 3] == expected


@in_subtests(
    ("leave_out", "left_out"),
    [
        (["nvlsm"], True),
        (["nvlsm=2025.10.11-1"], True),
        (["nvlsm=2025.10.12-1"], False),
        (["nv"], False),
        ([], False),
    ],
)
def test_packages_are_left_out_by_name_or_by_version(leave_out: list[str], left_out: bool) -> None:
    assert is_left_out(Path("pool/nvlsm_2025.10.11-1_amd64.deb"), leave_out) is left_out


def test_a_primary_keys_fingerprint_is_found_and_a_subkeys_is_not() -> None:
    colons = (
        "pub:u:255:22:A:1:::u:::scSC\nfpr:::::::::AAAA:\nuid:u::::\nsub:u:\nfpr:::::::::BBBB:\n"
    )
    assert parse_fingerprints(colons) == ["AAAA"]


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


@pytest.mark.parametrize("more", [[], [("http://y/debian", "sid")]])
@pytest.mark.parametrize("system", [DEFAULT, NEWER])
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
