"""unattended-upgrades and needrestart are kept off the set, as their own readers understand it."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from b200kit.run.render import render

SET = (
    "nvidia-open",
    "nvidia-fabricmanager",
    "libnvidia-nscq",
    "libnvsdm",
    "nvlsm",
    "cuda-toolkit-12-8",
    "libnccl2",
    "datacenter-gpu-manager-4-core",
    "linux-image-generic",
    "linux-headers-6.8.0-57-generic",
    "linux-modules-extra-6.8.0-57-generic",
)
RESTARTS = r"""
our %nrconf = (override_rc => {});
do $ARGV[0] or die $@;
my ($rule) = grep { $ARGV[1] =~ $_ } keys %{$nrconf{override_rc}};
print defined($rule) ? $nrconf{override_rc}{$rule} : 'default';
"""


@pytest.fixture(scope="module")
def blacklist(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The list of exceptions, as apt's own reader finds it in the file."""
    if not shutil.which("apt-config"):
        pytest.skip("no apt on this machine")
    path = tmp_path_factory.mktemp("apt") / "60b200kit"
    path.write_bytes(render("host/apt.conf.j2"))
    dump = subprocess.run(
        ["apt-config", "-c", str(path), "dump", "--no-empty"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    found = re.findall(r'^Unattended-Upgrade::Package-Blacklist:: "(.*)";$', dump, re.MULTILINE)
    assert 'APT::Periodic::Unattended-Upgrade "0";' in dump
    return found


@pytest.mark.parametrize("name", SET)
def test_set_is_on_the_list_of_exceptions(blacklist: list[str], name: str) -> None:
    assert any(re.match(pattern, name) for pattern in blacklist)


@pytest.mark.parametrize("name", ["openssl", "libc6", "bash", "haproxy"])
def test_security_updates_of_others_are_not(blacklist: list[str], name: str) -> None:
    assert not any(re.match(pattern, name) for pattern in blacklist)


@pytest.mark.skipif(not shutil.which("perl"), reason="needrestart reads its files with perl")
@pytest.mark.parametrize(
    ("unit", "restarts"),
    [
        ("nvidia-fabricmanager.service", "0"),
        ("nvidia-persistenced.service", "0"),
        ("vllm@3.service", "0"),
        ("haproxy.service", "0"),
        ("b200-gate.service", "0"),
        ("ssh.service", "default"),
        ("cron.service", "default"),
    ],
)
def test_needrestart_leaves_daemons_and_servers_alone(
    tmp_path: Path, unit: str, restarts: str
) -> None:
    path = tmp_path / "60-b200kit.conf"
    path.write_bytes(render("host/needrestart.conf.j2"))
    done = subprocess.run(
        ["perl", "-we", RESTARTS, str(path), unit], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == restarts
