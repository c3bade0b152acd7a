"""Host keys come from where there is reason to trust them; what a network shows is none."""

from __future__ import annotations

from pathlib import Path

import pytest

from b200kit.run import known_hosts
from b200kit.run.login import Login
from b200kit.site import host_keys
from b200kit.site.host_keys import Sources, Untrusted
from tests.messages import assert_message
from tests.unit.site.nodes import key

LOGIN = Login("10.0.0.1", "root")
CONSOLE = """\
[   12.345] cloud-init[812]: -----BEGIN SSH HOST KEY KEYS-----
[   12.346] cloud-init[812]: {key} root@n01
[   12.347] cloud-init[812]: -----END SSH HOST KEY KEYS-----
n01 login:
"""


@pytest.fixture(autouse=True)
def network(monkeypatch: pytest.MonkeyPatch) -> None:
    """A network that shows one key."""
    monkeypatch.setattr(host_keys, "_scanned", lambda login: (key("n"),))


def trusted(**sources: object) -> tuple[tuple[str, ...], str]:
    """The keys of n01 by some sources."""
    return host_keys.trusted("n01", LOGIN, Sources(**sources))  # type: ignore[arg-type]


def refused(**sources: object) -> str:
    """Why no key is trusted."""
    with pytest.raises(Untrusted) as untrusted:
        trusted(**sources)
    return str(untrusted.value)


def test_key_that_is_known_is_taken(tmp_path: Path) -> None:
    known = tmp_path / "known_hosts"
    known.write_text(f"10.0.0.1,n01 {key('a')}\n10.0.0.1 {key('b')}\n10.0.0.2 {key('c')}\n")
    assert trusted(files=[tmp_path / "none", known])[0] == (key("a"), key("b"))
    known.write_text(
        f"@revoked 10.0.0.1 {key('a')}\n#10.0.0.1 {key('a')}\n[10.0.0.1]:2 {key('a')}\n"
    )
    assert "no host key that you vouched for" in refused(files=[known])


def test_key_on_the_console_is_that_of_the_last_boot(tmp_path: Path) -> None:
    log = tmp_path / "n01.log"
    log.write_text(CONSOLE.format(key=key("a")) + CONSOLE.format(key=key("b")))
    assert trusted(consoles={"n01": log})[0] == (key("b"),)


def test_compared_fingerprint_picks_that_key_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_keys, "_scanned", lambda login: (key("m"), key("n")))
    compared = {"n01": [known_hosts.fingerprint(key("n"))]}
    assert trusted(fingerprints=compared)[0] == (key("n"),)


def test_everything_else_is_refused(tmp_path: Path) -> None:
    broken, empty = tmp_path / "broken.log", tmp_path / "empty.log"
    broken.write_text(CONSOLE.format(key=key("a")[:-20]))
    empty.write_text(f"n01 login:\n{key('a')}\n")
    lines = [
        refused(),
        refused(consoles={"n02": tmp_path / "n02.log"}),
        refused(consoles={"n01": tmp_path / "none.log"}),
        refused(consoles={"n01": broken}),
        refused(consoles={"n01": empty}),
        refused(fingerprints={"n01": [known_hosts.fingerprint(key("x"))]}),
        refused(fingerprints={"n01": ["aa:bb"]}),
    ]
    assert_message("\n".join(lines).replace(str(tmp_path), "TMP"))
