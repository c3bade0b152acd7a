"""The file a node's connection is held to: found as pyinfra finds it, replaced whole."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pyinfra.api.host import Host
from pyinfra.connectors.sshuserclient import client as ssh_client

from b200kit.run import host_keys
from tests.unit.run.test_known_hosts import NEW, OLD, OTHER


def host(**data: Any) -> Host:
    return cast(Host, SimpleNamespace(name="n1", data=data))


def test_keys_are_replaced_in_the_file_pyinfra_reads_and_read_again(tmp_path: Path) -> None:
    file = tmp_path / "known_hosts"
    file.write_text(f"10.0.0.1 {OLD}\n10.0.0.2 {OTHER}\n")
    file.chmod(0o600)
    pins = host_keys.of(host(ssh_hostname="10.0.0.1", ssh_known_hosts_file=str(file)))
    before = ssh_client.get_host_keys((str(file),))
    assert pins.keys() == (OLD,)

    pins.replace([NEW])

    assert pins.keys() == (NEW,)
    assert file.read_text() == f"10.0.0.2 {OTHER}\n10.0.0.1 {NEW}\n"
    assert file.stat().st_mode & 0o777 == 0o600
    after = ssh_client.get_host_keys((str(file),))
    assert before is not after
    assert after.lookup("10.0.0.1")["ssh-ed25519"].get_base64() == NEW.split()[1]


def test_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").write_text(f"n1 {OLD}\n")
    (tmp_path / "known_hosts").symlink_to("real")
    host_keys.of(host(ssh_known_hosts_file=str(tmp_path / "known_hosts"))).replace([NEW])
    assert (tmp_path / "known_hosts").is_symlink()
    assert (tmp_path / "real").read_text() == f"n1 {NEW}\n"


def test_file_that_cannot_be_written_whole_stays_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "known_hosts"
    file.write_text(f"n1 {OLD}\n")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space"):
        host_keys.of(host(ssh_known_hosts_file=str(file))).replace([NEW])
    assert file.read_text() == f"n1 {OLD}\n"


def test_ssh_config_says_name_port_and_files(tmp_path: Path) -> None:
    config = tmp_path / "config"
    first, second = tmp_path / "first", tmp_path / "second"
    config.write_text(
        f"Host n1\n  HostName 10.0.0.9\n  Port 2222\n  UserKnownHostsFile {first} {second}\n"
    )
    second.write_text(f"[10.0.0.9]:2222 {OLD}\n")
    pins = host_keys.of(host(ssh_config_file=str(config)))
    assert pins.name == "[10.0.0.9]:2222"

    pins.replace([NEW])

    # An old pin in any file would let the old key in again.
    assert first.read_text() == f"[10.0.0.9]:2222 {NEW}\n"
    assert second.read_text() == ""


def test_lines_that_paramiko_does_not_read_hide_none_below_them(tmp_path: Path) -> None:
    file = tmp_path / "known_hosts"
    file.write_text(
        f"@cert-authority * {OTHER}\n@revoked * {OLD}\nn2 ssh-ed25519 half\nn3 {OLD}\nn1 {NEW}\n"
    )
    found = ssh_client.get_host_keys((str(file),))
    assert found.lookup("n1")["ssh-ed25519"].get_base64() == NEW.split()[1]
    assert found.lookup("n3") is None
    assert [found.lookup(name) for name in ("*", "n2", "@revoked")] == [None, None, None]


def test_key_that_one_file_revokes_is_pinned_by_no_other(tmp_path: Path) -> None:
    pinned, revoking, config = (tmp_path / name for name in ("pinned", "revoking", "config"))
    pinned.write_text(f"n1 {OLD}\nn1 {NEW}\n")
    revoking.write_text(f"@revoked * {OLD}")
    config.write_text(f"Host n1\n  UserKnownHostsFile {pinned} {revoking}\n")
    assert host_keys.of(host(ssh_config_file=str(config))).keys() == (NEW,)
    found = ssh_client.get_host_keys((str(pinned), str(revoking)))
    assert [key.get_base64() for key in found.lookup("n1").values()] == [NEW.split()[1]]
