"""What to install of what apt on a node has to offer. Pure.

A version is asked for as the inventory says it (580.126.20); apt then gets the exact one
(580.126.20-0ubuntu1), because `apt-get install NAME=VERSION` looks past all preferences: a glob
would take the distribution's own build of the same version where the vendor's is missing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from b200kit.node.facts.dpkg_state import VENDOR
from b200kit.node.lib.apt_output import Offer
from b200kit.node.state.drift import Package, same_version

Table = Mapping[str, Sequence[Offer]]
"""Package to its versions, newest first."""


@dataclass(frozen=True)
class Choice:
    """What to give apt-get, what it does not have, and why a run cannot go on."""

    words: tuple[str, ...]
    missing: tuple[Package, ...]
    problems: tuple[str, ...]


def choose(
    desired: Iterable[Package],
    offered: Table,
    sources: Sequence[str],
    own: Collection[str] = (),
) -> Choice:
    """What to install of *desired*; *sources* are the repositories asked, for the message.

    The vendor's packages come from the inventory's repositories, *own*, where there are any: a
    build of the same version from another archive is one that nobody proved beside the rest.
    """
    words, missing, problems = [], [], []
    for each in desired:
        versions = offered.get(each.name, ())
        if own and VENDOR.search(each.name):
            versions = [
                offer if offer.is_from(own) else replace(offer, priority=-1) for offer in versions
            ]
        version = _best(each, versions)
        if version is not None:
            exact = each.version or (own and VENDOR.search(each.name))
            words.append(f"{each.name}={version}" if exact else each.name)
        elif each.optional:
            missing.append(each)
        else:
            problems.append(_problem(each, versions))
    requested = f"; asked: {', '.join(sources) or 'no repository'}"
    return Choice(tuple(words), tuple(missing), tuple(problem + requested for problem in problems))


def _best(desired: Package, versions: Sequence[Offer]) -> str | None:
    """The newest of the highest priority."""
    fits = [
        offer
        for offer in versions
        if (desired.version is None or same_version(offer.version, desired.version))
        and offer.priority >= 0
    ]
    return max(fits, key=lambda offer: offer.priority).version if fits else None


def _problem(desired: Package, versions: Sequence[Offer]) -> str:
    text = " ".join(part for part in (desired.name, desired.version) if part)
    has = [offer.version for offer in versions if offer.priority >= 0]
    kept_out = [offer.version for offer in versions if offer.priority < 0]
    only = f", only {', '.join(has[:4])}" if has else ""
    out = f", but for {', '.join(kept_out[:4])} that are kept out" if kept_out else ""
    return f"apt has no {text}{only or out}"
