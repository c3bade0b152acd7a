"""What the node's own apt says of repositories, packages and their installation. Pure."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

from b200kit.node.checks.findings import passed
from b200kit.node.state.expectation import Expectation
from b200kit.node.state.verdict import Finding
from b200kit.node.state.view import StateView
from b200kit.readiness.findings import refused
from b200kit.stages.support import operating_systems

_REMEDIES = (
    # CUDA's own list on an image: apt refuses all repositories for it.
    ("Conflicting values set for option Signed-By", "remove the node's own list of it: {where}"),
    # Sequoia's words; apt 3 takes no key that is bound by SHA-1, from 2026-02-01 on. NVIDIA's key
    # for Debian 12 and Ubuntu is, that for Debian 13 is not (NVIDIA/cuda-repo-management#30, #39).
    (
        "is not considered secure",
        "name the vendor's repository for the node's release, or sign your mirror by a newer key",
    ),
    ("is not valid yet|is expired", "correct the node's clock or the mirror's Release file"),
    (
        "NO_PUBKEY|is not signed|not verif|EXPKEYSIG|REVKEYSIG|BADSIG|no longer signed",
        "correct its key in the inventory, or in the node's list ({where}), or sign it by that key",
    ),
    ("", "let the node reach it, or correct its URL and suites in the inventory or {where}"),
)
_URL = re.compile(r"\b[a-z][a-z0-9+]*:/[^\s'\"\]]+")


def repositories(expect: Expectation, state: StateView) -> Iterator[Finding]:
    """The node's apt reads every repository, with its key, the inventory's among them."""
    if _untried(expect, state):
        yield passed("every package is installed: apt was not asked")
        return
    errors = _lines(state, "update")
    for line in errors:
        url = _URL.search(line)
        where = f"grep -rl {shlex.quote(url[0] if url else 'http')} /etc/apt"
        remedy = next(text for words, text in _REMEDIES if re.search(words, line))
        summary, rule = f"apt on the node: {line}", "every repository, signed"
        yield refused(summary, line, rule, remedy.format(where=where))
    if not errors:
        yield passed("apt reads every repository, signed by its key")


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
    system = operating_systems.system_of(state.value if isinstance(state.value, dict) else {})
    if system and re.search("not installable|no installation candidate", line):
        parts = ", ".join(system.archive.components)
        return f"look in /etc/apt: {system.archive.origin}'s sources need the components {parts}"
    return "add the repository that has it, or remove the package that conflicts"


def _untried(expect: Expectation, state: StateView) -> bool:
    """Whether apt was not asked, because nothing is to be installed."""
    return state.is_missing("apt") and not expect.flag("ready", "apt")


def _lines(state: StateView, key: str) -> list[str]:
    return list(map(str, state.get(list, "apt", key)))
