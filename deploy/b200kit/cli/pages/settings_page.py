"""docs/reference/settings.md, made from catalog/settings.yaml. Pure but for reading that file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from b200kit.catalog import settings
from b200kit.cli.pages.markdown import table
from b200kit.node.host.settings_table import Setting

_HEAD = """\
# Settings of the operating system

Made by `python -m b200kit.cli.reference_pages all` from `deploy/b200kit/catalog/settings.yaml`; do
not edit.

The settings stage sets each of these on a node. `host.settings` judges, on the controller and at
every boot, whether it is *in force*, from what the kernel or the service manager reports, not from
a file. The next `deploy/b200.py` restores what somebody changed by hand. Only kernel command line
and module options need the one reboot of the run.

The inventory key `settings` overrides a default by name; `None` means neither set nor judged:

    settings = {"iommu": "off", "cstates": "c1", "swappiness": None}

A default *or more* is a floor, as is what overrides it: a node that has more keeps it.

A name or value that is not in this table is refused before the first connection. A finding is
about `setting NAME`, by which a [Waiver](inventory.md#waiver) can name it.
"""

_WHERE = """\
## Where they stand on a node

| means | file | put in force by |
|---|---|---|
| sysctl | `/etc/sysctl.d/99-zz-b200kit.conf`, read last | `sysctl -p` of this file alone |
| command line | `/etc/default/grub.d/zz-b200kit.cfg` | `update-grub` and a boot |
| written file | `/etc/tmpfiles.d/b200kit.conf` | `systemd-tmpfiles --create` of this file alone |
| limit of services | `/etc/systemd/system.conf.d/60-b200kit.conf` | `daemon-reload`, a new start |
| limit of people | `/etc/security/limits.d/60-b200kit.conf` | the next login |
| module | `/etc/modprobe.d/b200kit.conf` | `update-initramfs -u` where it exists, and a boot |
| swap | `swap.target` masked; fstab stays as it is | `swapoff -a` |
| unit | `b200-acs.service`, before the fabric manager, at every boot | its start |
| unit | `b200-power.service`, with the persistence daemon | its start, with a driver |

A node without `update-grub` whose command line is right is fine. Where it is wrong, or where GRUB's
configuration is right and the kernel was booted with something else, the run ends at the settings
stage with one line; it does not reboot a node again and again for words that GRUB does not give it.

Limits are left alone on a node whose root may not raise them, such as a container.
"""

_ELSEWHERE = """\
## Set by other stages

"""

_APPLIES = {
    "always": "every node",
    "intel": "Intel CPUs",
    "amd": "AMD CPUs",
    "cpufreq": "where the kernel scales frequency",
    "acs": "where a bridge above a GPU has ACS",
    "limits": "where root may raise limits",
}


def settings_markdown() -> str:
    """The whole page."""
    known = settings.load().values()
    rows = ((f"[`{one.name}`](#{one.name})", *cells(one)) for one in known)
    parts = [_HEAD, f"## All\n\n{table(('setting', *COLUMNS), rows)}", _WHERE, _elsewhere()]
    return "\n".join([*parts, *map(_entry, known)])


COLUMNS = ("default", "values", "for", "set by", "what is read")


def cells(setting: Setting) -> tuple[str, ...]:
    """What COLUMNS are of a setting."""
    return (
        _default(setting),
        setting.allowed,
        _APPLIES[setting.applies],
        ", ".join(_means(setting.means)),
        f"`{_path(setting.reading)}`"
        + (f", by `{setting.judged_by}`" if setting.judged_by else ""),
    )


def _default(setting: Setting) -> str:
    more = " or more" if setting.floor else ""
    return "not set" if setting.default is None else f"`{setting.default}`{more}"


def _path(keys: tuple[str, ...]) -> str:
    """A reading's path; a key with dots stands in brackets."""
    return "".join(f"[{key}]" if "." in key else f".{key}" for key in keys).lstrip(".")


def _means(means: Mapping[str, Any]) -> Iterator[str]:
    for name, value in means.items():
        if name == "limit":
            yield f"limit `{value[0]}`, `{value[1]}`"
        elif name in ("cmdline", "modprobe"):
            yield {"cmdline": "the command line", "modprobe": "modprobe"}[name]
        else:
            yield f"sysctl `{value}`" if name == "sysctl" else f"`{value}`"


def _entry(setting: Setting) -> str:
    """What, why and where from, and the words for each value where there are any."""
    lines = [f"## {setting.name}", "", f"{_sentence(setting.what)} {_sentence(setting.why)}"]
    by_value = setting.means.get("cmdline") or setting.means.get("modprobe") or {}
    lines += [""] if by_value else []
    lines += [f"- `{value}`: {_words(words)}" for value, words in by_value.items()]
    return "\n".join([*lines, "", f"Source: {source(setting)}.", ""])


def source(setting: Setting) -> str:
    """Who says what a setting should be, when that was read, and how it is known."""
    return f"{setting.source} ({setting.date}; {setting.kind})"


def _words(words: Any) -> str:
    if isinstance(words, list):
        return ", ".join(f"`{line}`" for line in words)
    cpus = {"all": "", "intel": " on Intel", "amd": " on AMD"}
    return ", ".join(f"`{word}`{cpus[cpu]}" for cpu, word in words.items())


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


def _elsewhere() -> str:
    rows = (
        (name, entry["stage"], entry["how"], f"`{entry['check']}`")
        for name, entry in settings.elsewhere().items()
    )
    return _ELSEWHERE + table(("what", "stage", "how", "judged by"), rows)
