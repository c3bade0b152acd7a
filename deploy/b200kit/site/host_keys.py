"""Host keys that a user has reason to trust: known before, read on a console, or compared.

What a network shows is never a reason: ssh-keyscan's answer counts only where its fingerprint is
one that the user gave.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from b200kit.node.lib import documents
from b200kit.run import known_hosts
from b200kit.run.host_certificates import certified
from b200kit.run.login import Login, keyscan

# cloud-init's words on a console (config/cc_keys_to_console.py), whatever begins the line.
_BLOCK = re.compile(
    r"-----BEGIN SSH HOST KEY KEYS-----(.*?)-----END SSH HOST KEY KEYS-----", re.DOTALL
)
_FINGERPRINT = re.compile(r"SHA256:[A-Za-z0-9+/]{43}")


class Untrusted(Exception):
    """A host whose key nobody vouched for, in one line."""


@dataclass(frozen=True)
class Sources:
    """Where keys may come from: known_hosts files, and by host a console's output or a print."""

    files: Sequence[Path] = ()
    consoles: Mapping[str, Path] = field(default_factory=dict)
    fingerprints: Mapping[str, Sequence[str]] = field(default_factory=dict)


def trusted(host: str, login: Login, sources: Sources) -> tuple[tuple[str, ...], str]:
    """The keys of a host, each "type base64", and where they are from; raises Untrusted.

    A key that one of the known_hosts files revokes is believed from nowhere.
    """
    keys, why = _vouched(host, login, sources)
    for file in sources.files:
        if not known_hosts.revoked(_text(file)).isdisjoint(keys):
            raise Untrusted(f"{host}: its host key is revoked in {file}: somebody else may answer")
    return keys, why


def _vouched(host: str, login: Login, sources: Sources) -> tuple[tuple[str, ...], str]:
    if host in sources.consoles:
        return _of_console(host, sources.consoles[host])
    if host in sources.fingerprints:
        return _compared(host, login, sources.fingerprints[host])
    port = login.port or 22
    name = known_hosts.name_of(login.host, port)
    for file in sources.files:
        text = _text(file)
        if keys := known_hosts.pinned(text, [name, known_hosts.name_of(host, port)]):
            return keys, f"known in {file}"
        if keys := certified(text, login, {login.host, host}):
            return keys, f"certified by an authority in {file}"
    shown = [known_hosts.fingerprint(key) for key in _scanned(login)]
    nothing = f"nothing answers at {login.host}, port {port}"
    seen = f"the network shows {', '.join(shown)}, which proves nothing" if shown else nothing
    raise Untrusted(
        f"{host}: no host key that you vouched for; {seen}. Compare on its console "
        "(ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub), then give "
        f"--fingerprint {host}=SHA256:..., or --console {host}=FILE as cloud-init printed it there"
    )


def _text(file: Path) -> str:
    try:
        return documents.content(file.expanduser()).decode("utf-8", "replace")
    except OSError:
        return ""


def _of_console(host: str, file: Path) -> tuple[tuple[str, ...], str]:
    try:
        blocks = _BLOCK.findall(documents.content(file).decode("utf-8", "replace"))
        # Of the last boot: an earlier one may be of an installation before.
        keys = known_hosts.keys_in(blocks[-1]) if blocks else ()
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise Untrusted(f"{host}: {file}: {why}") from None
    if not keys:
        raise Untrusted(f"{host}: {file} holds no SSH HOST KEY KEYS as cloud-init prints them")
    return keys, f"printed on its console ({file.name})"


def _compared(host: str, login: Login, fingerprints: Sequence[str]) -> tuple[tuple[str, ...], str]:
    for each in fingerprints:
        if not _FINGERPRINT.fullmatch(each):
            raise Untrusted(f"{host}: {each} is no fingerprint as ssh-keygen -l shows it")
    shown = _scanned(login)
    keys = tuple(key for key in shown if known_hosts.fingerprint(key) in fingerprints)
    if not keys:
        others = ", ".join(map(known_hosts.fingerprint, shown)) or "no key"
        raise Untrusted(f"{host} shows {others}, not what you compared: somebody else may answer")
    return keys, "its fingerprint was compared by you"


def _scanned(login: Login) -> tuple[str, ...]:
    """What answers at an address says its keys are; believed by nobody."""
    try:
        return known_hosts.keys_in(keyscan(login))
    except ValueError:
        return ()
