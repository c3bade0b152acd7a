"""What the node's own apt says of repositories, packages and their installation. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator

from b200kit.node.checks.findings import passed
from b200kit.node.state.expectation import Expectation
from b200kit.node.state.verdict import Finding
from b200kit.node.state.view import StateView
from b200kit.readiness.findings import refused
from b200kit.stages.support import operating_systems

_OWN = "/etc/apt/sources.list.d/b200kit-"
_CONFLICT = re.compile(r"Conflicting values set for option Signed-By regarding source (\S+)")
_KEY = re.compile(r"NO_PUBKEY|is not signed|not verif|EXPKEYSIG|REVKEYSIG|BADSIG|no longer signed")
# Sequoia's words; apt 3 takes no key that is bound by SHA-1, from 2026-02-01 on. NVIDIA's key for
# Debian 12 and Ubuntu is, that for Debian 13 is not (NVIDIA/cuda-repo-management#30 and #39).
_WEAK = re.compile(r"is not considered secure")
_DATE = re.compile(r"is not valid yet|is expired")
_CHANGED = re.compile(r"changed its '|does not have a Release file|404")


def repositories(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """The node's apt reads every repository, with its key, the inventory's among them."""
    if _untried(expect, state):
        yield passed("every package is installed: apt was not asked")
        return
    errors = _lines(state, "update")
    named = state.known(dict, "apt", "named_in") or {}
    for line in errors:
        yield _unusable(line, {str(url): list(map(str, of)) for url, of in named.items()})
    if not errors:
        yield passed("apt reads every repository, signed by its key")


def _unusable(line: str, named: dict[str, list[str]]) -> Finding:
    files = list(dict.fromkeys(file for url, of in named.items() if url in line for file in of))
    others = [file for file in files if not file.startswith(_OWN)]
    if conflict := _CONFLICT.search(line):
        where = ", ".join(others) or "another list"
        summary = (
            f"{where} names {conflict[1]} with another Signed-By: apt refuses all repositories"
        )
        return refused(summary, line, "one key a repository", f"remove it from {where}")
    own = not others
    where = "the inventory's repositories" if own else ", ".join(others)
    if _WEAK.search(line):
        remedy = (
            f"the node's apt refuses that key: in {where} name the vendor's repository for the "
            "node's release, or sign a mirror of your own by a newer key"
        )
    elif _KEY.search(line):
        remedy = f"correct the key in {where}, or sign the repository by it"
    elif _DATE.search(line):
        remedy = "correct the node's clock or the mirror's Release file"
    elif _CHANGED.search(line):
        remedy = f"correct its URL and suites in {where}"
    else:
        remedy = f"let the node reach it, or correct its URL in {where}"
    return refused(f"apt on the node: {line}", line, "every repository, signed", remedy)


def candidates(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """Every package that is required has a candidate of the version asked for."""
    if _untried(expect, state):
        yield passed("every package is installed")
        return
    problems = _lines(state, "problems")
    for line in problems:
        remedy = "correct the version or the repositories in the inventory, or publish the package"
        yield refused(line, line, "a candidate", remedy)
    if not problems:
        yield passed("apt has every package that is required")


def installation(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """The node's apt would install them, their dependencies included."""
    if _untried(expect, state) or state.is_null("apt", "install"):
        yield passed(
            "no installation was simulated: there is nothing to install, or to repair first"
        )
        return
    errors = _lines(state, "install")
    if not errors:
        yield passed("apt would install every package")
        return
    first = next((line for line in errors if ": " in line and "Depends" in line), errors[0])
    yield refused(
        f"apt would not install: {first}", "; ".join(errors), "an installation", _mend(state, first)
    )


def _mend(state: StateView, line: str) -> str:
    """What to do; what the driver depends on may be in a component of the system that is off."""
    components = state.known(list, "apt", "components") or []
    system = operating_systems.system_of(state.value if isinstance(state.value, dict) else {})
    lacking = (
        [part for part in system.archive.components if part not in components] if system else []
    )
    if system and lacking and re.search("not installable|no installation candidate", line):
        what = f"{' and '.join(lacking)} to the components of {system.archive.origin}'s sources"
        return f"add {what} in /etc/apt"
    return "add the repository that has it, or remove the package that conflicts"


def _untried(expect: Expectation, state: StateView) -> bool:
    """Whether apt was not asked, because nothing is to be installed."""
    return state.is_missing("apt") and not expect.flag("ready", "apt")


def _lines(state: StateView, key: str) -> list[str]:
    return list(map(str, state.get(list, "apt", key)))
