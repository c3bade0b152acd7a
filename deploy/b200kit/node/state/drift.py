"""What differs between what was asked and what a node's observation shows. Pure.

A changed file may notify a handler, such as a restart. That the handler is pending is saved as a
marker file on the node, written before the file and removed after the handler ran, so that a run
killed in between is finished by the next one.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from b200kit.node.lib.readings import is_unmeasured

PENDING = "/var/lib/b200kit/pending"
# Under /run, because the reboot that it is about also clears it.
PENDING_REBOOT = "/run/b200kit/pending-reboot"


@dataclass(frozen=True)
class File:
    """A file as it must be; *notify* names the handlers of a change, as "restart:x.service"."""

    path: str
    content: bytes
    mode: int = 0o644
    owner: str = "root:root"
    secret: bool = False
    notify: tuple[str, ...] = ()


@dataclass(frozen=True)
class Package:
    """An installed package; *version* None takes any, otherwise the upstream part or all of it.

    An *optional* one is left out where apt on the node was asked and has none.
    """

    name: str
    version: str | None = None
    hold: bool = False
    optional: bool = False

    @property
    def key(self) -> str:
        """What it is kept under in the record of what apt does not have."""
        return f"{self.name}={self.version}" if self.version else self.name


@dataclass(frozen=True)
class NodeUnit:
    """A systemd unit that must be enabled and, when *active*, running."""

    name: str
    active: bool = True


def pending_marker(handler: str) -> str:
    """Path of the marker that says *handler* has still to run."""
    return PENDING_REBOOT if handler == "reboot" else f"{PENDING}/{handler.replace('/', '-')}"


def changed_files(files: Iterable[File], state: Mapping[str, object], nonce: str) -> list[File]:
    """The files whose content, mode or owner on the node is not as asked, or could not be read."""
    observed = _section(state, "files")
    return [file for file in files if not _matches(file, observed.get(file.path), nonce)]


def _matches(file: File, reading: object, nonce: str) -> bool:
    if not isinstance(reading, Mapping):
        return False
    same_place = reading.get("mode") == f"{file.mode:04o}" and reading.get("owner") == file.owner
    if file.secret:
        digest = hmac.new(bytes.fromhex(nonce), file.content, hashlib.sha256).hexdigest()
        return same_place and reading.get("hmac") == digest
    return same_place and reading.get("sha256") == hashlib.sha256(file.content).hexdigest()


def pending_handlers(
    files: Iterable[File], changed: Iterable[File], state: Mapping[str, object]
) -> list[str]:
    """Handlers to run now: those of the changed files, and those an interrupted run left."""
    observed = _section(state, "files")
    due = {handler for file in changed for handler in file.notify}
    notified = {handler for file in files for handler in file.notify}
    due |= {handler for handler in notified if observed.get(pending_marker(handler)) is not None}
    return sorted(due)


def is_present(path: str, state: Mapping[str, object]) -> bool:
    """Whether a requested file was found; one that could not be read is not taken for present."""
    reading = _section(state, "files").get(path)
    return isinstance(reading, Mapping) and not is_unmeasured(reading)


def wrong_packages(
    packages: Iterable[Package], state: Mapping[str, object], missing: Collection[str] = ()
) -> list[Package]:
    """Packages that are missing, of another version, not fully installed, or not held as asked.

    An optional one whose key is in *missing* is no longer asked for.
    """
    observed = _section(state, "packages")
    return [
        package
        for package in packages
        if not (package.optional and package.key in missing)
        and not _installed(package, observed.get(package.name))
    ]


def missing(state: Mapping[str, object], sources: Iterable[str]) -> frozenset[str]:
    """Keys of the optional packages that apt on the node was asked for and has none of.

    The record (/var/lib/b200kit/packages.json) counts for a package while every one of *sources*,
    the URLs of the inventory's repositories, was among its sources: a new one may have it.
    """
    record = _section(_section(state, "notes"), "packages").get("missing")
    desired = {source.rstrip("/") for source in sources}
    entries = record if isinstance(record, Mapping) else {}
    return frozenset(
        str(key)
        for key, entry in entries.items()
        if isinstance(entry, Mapping) and desired <= _urls(entry.get("sources"))
    )


def _urls(listed: object) -> set[str]:
    return {str(url).rstrip("/") for url in listed} if isinstance(listed, list) else set()


def versions(state: Mapping[str, object]) -> dict[str, str]:
    """Name to version of every package the observation found on the node."""
    observed = _section(state, "packages")
    readings = {
        n: r["version"] for n, r in observed.items() if isinstance(r, Mapping) and "version" in r
    }
    return {name: str(version) for name, version in readings.items()}


def _installed(package: Package, reading: object) -> bool:
    if not isinstance(reading, Mapping) or reading.get("status") != "ii":
        return False
    if package.version and not same_version(str(reading.get("version")), package.version):
        return False
    return not package.hold or reading.get("hold") is True


def same_version(installed: str, desired: str) -> bool:
    """True for the whole version or its upstream part: 580.126.20-1 is 580.126.20."""
    upstream = installed.partition(":")[2] or installed
    return desired in (installed, upstream, upstream.rpartition("-")[0])


def wrong_units(units: Iterable[NodeUnit], state: Mapping[str, object]) -> list[NodeUnit]:
    """Units that are not enabled, or should run and do not."""
    observed = _section(state, "units")
    return [unit for unit in units if not _running(unit, observed.get(unit.name))]


def _running(unit: NodeUnit, reading: object) -> bool:
    if not isinstance(reading, Mapping):
        return False
    if reading.get("enabled") == "masked" and not unit.active:
        return True  # somebody's decision, which enabling cannot change: who needs it says so
    enabled = reading.get("enabled") in ("enabled", "static", "generated", "indirect")
    return enabled and (not unit.active or reading.get("active") == "active")


def _section(state: Mapping[str, object], name: str) -> Mapping[str, object]:
    section = state.get(name)
    return section if isinstance(section, Mapping) else {}
