"""Logs that would grow without end, and how far they may: each limit with why. Pure data. Pure."""

from __future__ import annotations

from dataclasses import dataclass

GIB = 1 << 30


@dataclass(frozen=True)
class Journal:
    """One setting of journald."""

    key: str
    value: str
    why: str


@dataclass(frozen=True)
class Log:
    """Files that logrotate turns over, by shell pattern."""

    pattern: str
    why: str
    # The writer keeps its file open: the file is copied and cut, a few lines are lost.
    copytruncate: bool = True


JOURNAL = (
    Journal("Storage", "persistent", "what a boot that died said is read at the next one"),
    Journal("SystemMaxUse", "4G", "a tenth of the file system is its default, up to 4 GiB; said"),
    Journal("SystemKeepFree", "2G", "a full root file system stops apt and every service"),
    Journal("SystemMaxFileSize", "128M", "old entries go a file at a time"),
    Journal("MaxRetentionSec", "90day", "long enough for a warranty case"),
    Journal("RateLimitBurst", "100000", "a burst of Xid messages must not be cut: it is evidence"),
)
FAULT_JOURNAL_BYTES = 5 * GIB
"""More than SystemMaxUse and the file being written: journald does not hold its limit."""

LOGS = (
    Log("/var/log/b200kit-*.log", "apt, engine and storage steps of our runs"),
    Log(
        "/var/log/fabricmanager.log",
        "the fabric manager keeps it open; LOG_MAX_ROTATE_COUNT of its own covers its restarts",
    ),
    Log("/var/log/nvlsm.log", "the subnet manager logs every sweep"),
    Log("/var/log/nvidia-dcgm/*.log", "nv-hostengine keeps its log open"),
    Log("/var/log/nvidia-*.log", "installers and daemons of the driver"),
)
KEEP = 8
"""Turned-over files that are kept, compressed: two months of weeks."""
MAX_BYTES = 256 << 20
"""A file is turned over each week, and at the daily look when it is larger than this."""
FAULT_BYTES = GIB
"""A file of this size has not been turned over: logrotate does not run, or fails."""
