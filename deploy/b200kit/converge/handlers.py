"""What files notify when they change, as shell commands. A handler is VERB or VERB:SUBJECT."""

from __future__ import annotations

_INITRAMFS = "update-initramfs"


def command(handler: str) -> str:
    """The command of a handler such as "restart:haproxy.service"; KeyError for an unknown one."""
    verb, _, subject = handler.partition(":")
    return {
        "restart": f"systemctl daemon-reload && systemctl restart {subject}",
        "reload": f"systemctl daemon-reload && systemctl reload-or-restart {subject}",
        "sysusers": "systemd-sysusers",
        "daemon-reload": "systemctl daemon-reload",
        "sysctl": f"sysctl -q -p {subject}",
        "tmpfiles": f"systemd-tmpfiles --create {subject}",
        "update-grub": "update-grub",
        # Not every node has one: some distributions make theirs another way, some need none.
        _INITRAMFS: f"{{ ! command -v {_INITRAMFS} >/dev/null || {_INITRAMFS} -u; }}",
    }[verb]


def ended(handler: str) -> tuple[str, ...]:
    """The units that end while a handler runs; a reload ends none."""
    verb, _, subject = handler.partition(":")
    return (subject,) if verb == "restart" else ()


def unit(handler: str) -> str | None:
    """The unit of a handler, whose journal says why it failed; None where there is none."""
    verb, _, subject = handler.partition(":")
    return subject if verb in ("restart", "reload") else None
