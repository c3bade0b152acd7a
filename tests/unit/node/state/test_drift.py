"""Drift compares what is asked with what was seen; what could not be read differs."""

from __future__ import annotations

import hashlib
import hmac
from typing import Any

from b200kit.node.state.drift import (
    File,
    NodeUnit,
    Package,
    changed_files,
    pending_handlers,
    pending_marker,
    same_version,
    wrong_packages,
    wrong_units,
)
from tests.subtests import in_subtests

NONCE = "00ff" * 8
FILE = File("/etc/x", b"content", notify=("restart:x.service",))


def seen(file: File, **changes: Any) -> dict[str, Any]:
    reading: dict[str, Any] = {"mode": f"{file.mode:04o}", "owner": file.owner}
    if file.secret:
        key = bytes.fromhex(NONCE)
        reading["hmac"] = hmac.new(key, file.content, hashlib.sha256).hexdigest()
    else:
        reading["sha256"] = hashlib.sha256(file.content).hexdigest()
    return {"files": {file.path: reading | changes}}


def test_same_file_is_no_drift() -> None:
    assert changed_files([FILE], seen(FILE), NONCE) == []


@in_subtests(
    "state",
    [
        {},
        {"files": {"/etc/x": None}},
        {"files": {"/etc/x": {"unmeasured": "permission denied"}}},
        {"files": {"unmeasured": "timed out"}},
        seen(FILE, sha256="0" * 64),
        seen(FILE, mode="0600"),
        seen(FILE, owner="vllm:vllm"),
    ],
)
def test_other_missing_or_unreadable_file_is_drift(state: dict[str, Any]) -> None:
    assert changed_files([FILE], state, NONCE) == [FILE]


def test_secret_is_compared_by_keyed_digest_only() -> None:
    secret = File("/etc/key", b"s3cret", 0o600, secret=True)
    assert changed_files([secret], seen(secret), NONCE) == []
    assert changed_files([secret], seen(secret), "11ff" * 8) == [secret]
    plain = {"files": {"/etc/key": {"sha256": hashlib.sha256(b"s3cret").hexdigest()}}}
    assert changed_files([secret], plain, NONCE) == [secret]


def test_changed_file_owes_its_acts() -> None:
    assert pending_handlers([FILE], [FILE], {}) == ["restart:x.service"]
    assert pending_handlers([FILE], [], seen(FILE)) == []


def test_marker_of_an_interrupted_run_still_owes_the_act() -> None:
    state = seen(FILE)
    state["files"][pending_marker("restart:x.service")] = {"sha256": "", "mode": "0644"}
    assert pending_handlers([FILE], [], state) == ["restart:x.service"]


def test_reboot_marker_is_where_a_reboot_clears_it() -> None:
    assert pending_marker("reboot").startswith("/run/")
    assert pending_marker("restart:x.service").startswith("/var/lib/")


@in_subtests(
    ("reading", "right"),
    [
        ({"version": "580.126.20-1", "status": "ii", "hold": True}, True),
        ({"version": "580.159.03-1", "status": "ii", "hold": True}, False),
        ({"version": "580.126.20-1", "status": "ii", "hold": False}, False),
        ({"version": "580.126.20-1", "status": "iU", "hold": True}, False),
        (None, False),
        ({"unmeasured": "dpkg-query failed"}, False),
    ],
)
def test_package_must_be_installed_whole_exact_and_held(reading: Any, right: bool) -> None:
    package = Package("nvidia-open", "580.126.20", hold=True)
    assert (wrong_packages([package], {"packages": {"nvidia-open": reading}}) == []) is right


@in_subtests(
    ("installed", "wanted", "same"),
    [
        ("580.126.20-1", "580.126.20", True),
        ("580.126.20-0ubuntu0.24.04.1", "580.126.20", True),
        ("1:580.126.20-1", "580.126.20", True),
        ("1.20.0-1", "1.20.0-1", True),
        ("580.126.2-1", "580.126.20", False),
        ("580.126.20", "580.126", False),
    ],
)
def test_version_matches_whole_or_by_upstream_part(installed: str, wanted: str, same: bool) -> None:
    assert same_version(installed, wanted) is same


@in_subtests(
    ("reading", "right"),
    [
        ({"enabled": "enabled", "active": "active"}, True),
        ({"enabled": "static", "active": "active"}, True),
        ({"enabled": "disabled", "active": "active"}, False),
        ({"enabled": "enabled", "active": "failed"}, False),
        ({"enabled": "enabled", "active": "activating"}, False),
        (None, False),
    ],
)
def test_unit_must_be_enabled_and_running(reading: Any, right: bool) -> None:
    assert (wrong_units([NodeUnit("x")], {"units": {"x": reading}}) == []) is right
