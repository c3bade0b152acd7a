"""Why a kernel did not take the driver's module, out of its log."""

from __future__ import annotations

from b200kit.node.packages import module_log
from tests.subtests import in_subtests

NOISE = [
    "nvidia: loading out-of-tree module taints kernel.",
    "NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  580.126.20",
    "mlx5_core 0000:1a:00.0: firmware version: 28.39.1002",
]


@in_subtests(
    ("line", "meaning"),
    [
        ("systemd-modules-load: Failed to insert module 'nvidia': Key was rejected by service",
         "Secure Boot"),
        ("Loading of module with unavailable key is rejected", "Secure Boot"),
        ("Lockdown: modprobe: unsigned module loading is restricted; see man kernel_lockdown.7",
         "Secure Boot"),
        ("nvidia: version magic '6.1.0-28-amd64 SMP' should be '6.1.0-30-amd64 SMP'",
         "another kernel"),
        ("nvidia: disagrees about version of symbol module_layout", "another kernel"),
        ("NVRM: The NVIDIA GPU 0000:1b:00.0 is already bound to nouveau.", "nouveau"),
        ("NVRM: No NVIDIA GPU found.", "PCI bus"),
        ("NVRM: GPU 0000:1b:00.0: RmInitAdapter failed! (0x62:0x40:1860)", "RmInitAdapter"),
        ("nvidia: module verification failed: signature and/or required key missing", "not signed"),
    ],
)  # fmt: skip
def test_telling_line_is_found_with_its_meaning(line: str, meaning: str) -> None:
    text = module_log.refusal([*NOISE, line])
    assert line[:60] in text
    assert meaning in text


def test_secure_boot_goes_before_what_follows_from_it() -> None:
    said = ["nvidia: module verification failed: signature missing", "NVRM: No NVIDIA GPU found.",
            "Loading of module with unavailable key is rejected"]  # fmt: skip
    assert "Secure Boot" in module_log.refusal(said)


def test_log_that_tells_nothing_gives_nothing() -> None:
    assert module_log.refusal(NOISE) == ""
    assert module_log.relevant(NOISE) == []


def test_lines_are_told_once_each() -> None:
    line = "NVRM: No NVIDIA GPU found."
    assert module_log.relevant([line, *NOISE, f" {line} "]) == [line]
