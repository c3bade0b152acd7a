"""What changes a node by itself, as the programs that would do it say."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from b200kit.node.facts import automatic
from b200kit.node.lib import readings
from b200kit.node.lib.apt import Apt
from b200kit.run.render import render

UNITS = ("nvidia-fabricmanager.service", "vllm@0.service", "b200-agent.service", "ssh.service")


@pytest.mark.parametrize(
    ("files", "done"),
    [([], None), (["enabled"], False), (["enabled", "result.json"], True)],
    ids=["no cloud-init", "at work", "finished"],
)
def test_first_boot_is_over_when_cloud_init_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: list[str], done: bool | None
) -> None:
    monkeypatch.setattr(automatic, "ROOT", tmp_path)
    folder = tmp_path / "run/cloud-init"
    folder.mkdir(parents=True)
    for name in files:
        (folder / name).touch()
    assert automatic.first_boot() is done


def test_nothing_upgrades_where_the_program_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(automatic, "ROOT", tmp_path)
    assert automatic.upgrades() is None


@pytest.mark.skipif(not shutil.which("apt-config"), reason="no apt on this machine")
@pytest.mark.parametrize(("files", "often"), [((), "0"), (("20",), "1"), (("20", "zz"), "0")])
def test_the_last_of_apts_files_decides(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: tuple[str, ...], often: str
) -> None:
    texts = {"20": b'APT::Periodic::Unattended-Upgrade "1";\n', "zz": render("host/apt.conf.j2")}
    (tmp_path / "parts").mkdir()
    for name in files:
        (tmp_path / "parts" / f"{name}-test").write_bytes(texts[name])
    (tmp_path / "apt.conf").write_text(f'Dir::Etc::Parts "{tmp_path}/parts";\n')
    monkeypatch.setenv("APT_CONFIG", str(tmp_path / "apt.conf"))
    monkeypatch.setattr(automatic, "ROOT", tmp_path)
    (tmp_path / "usr/bin").mkdir(parents=True)
    (tmp_path / "usr/bin/unattended-upgrade").touch()
    assert automatic.upgrades() == often


@pytest.mark.skipif(not shutil.which("perl"), reason="no perl on this machine")
@pytest.mark.parametrize("ours", [True, False], ids=["with our file", "without"])
def test_needrestart_is_asked_by_its_own_configuration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ours: bool
) -> None:
    main = tmp_path / "needrestart.conf"
    parts = tmp_path / "conf.d"
    parts.mkdir()
    if ours:
        (parts / "60-b200kit.conf").write_bytes(render("host/needrestart.conf.j2"))
    # As needrestart 3.6's own file reads the others.
    main.write_text(
        "$nrconf{override_rc} = { qr(^ssh) => 1 };\n"
        f"foreach my $fn (sort <{parts}/*.conf>) {{\n"
        '    eval do { local(@ARGV, $/) = $fn; <>}; die "Error parsing $fn: $@" if($@);\n}\n'
    )
    script = automatic._RESTARTS.replace("/etc/needrestart/needrestart.conf", str(main))
    said = readings.command(["perl", "-e", script, *UNITS]).split()
    assert said == (["ssh.service"] if ours else [*UNITS])


def test_each_package_of_the_vendor_has_its_repositories_whatever_it_is_called(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of a branch below 580 the names are others, which whoever asks may not know yet."""
    listing = "nvidia-persistenced\t570.133.20-1\thi \nnvlsm\t\tun \nbash\t5.2\tii \n"
    policy = """\
nvidia-persistenced:
  Installed: 570.133.20-1
  Version table:
     580.126.20-1 500
        500 https://mirror.example.internal/apt ./ Packages
 *** 570.133.20-1 1001
        500 https://mirror.example.internal/apt ./ Packages
        100 /var/lib/dpkg/status
libnccl2:
  Installed: 2.27.7-1
  Version table:
 *** 2.27.7-1 100
        100 /var/lib/dpkg/status
nvlsm:
  Installed: (none)
  Version table:
     2025.06.11-1 500
        500 https://mirror.example.internal/apt ./ Packages
"""
    asked: list[str] = []

    def answer(apt: Apt, *words: str) -> list[str]:
        asked.extend(words)
        return policy.splitlines()

    monkeypatch.setattr(Apt, "said", answer)
    found = automatic.origins(["libnccl2"], listing)
    vendor = ["https://mirror.example.internal/apt"]
    assert found == {"libnccl2": [], "nvidia-persistenced": vendor}
    assert asked[-4:] == ["policy", "libnccl2", "nvidia-persistenced", "nvlsm"]
