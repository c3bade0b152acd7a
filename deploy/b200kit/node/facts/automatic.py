"""What changes a node by itself: automatic upgrades and restarts, archives, a first boot.

Asked by what apt, needrestart and cloud-init themselves would do, not by a file of ours.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from b200kit.node.facts.dpkg_state import VENDOR
from b200kit.node.lib.apt import Apt
from b200kit.node.lib.readings import COMMAND_TIMEOUT_S, attempt, command, is_unmeasured

ROOT = Path("/")
_APT = Apt(limit_s=COMMAND_TIMEOUT_S)
_UPGRADES = "APT::Periodic::Unattended-Upgrade"
# needrestart 3.6 evaluates its file, which evaluates those of conf.d, and leaves alone a unit that
# an expression maps to 0. "l": it lists what it would restart.
_RESTARTS = """
our %nrconf = (override_rc => {}, restart => "i"); our $LOGPREF = "";
open STDERR, ">", "/dev/null"; my @units = @ARGV;
eval do { local (@ARGV, $/) = "/etc/needrestart/needrestart.conf"; <> }; die $@ if $@;
exit if $nrconf{restart} eq "l";
my $known = $nrconf{override_rc};
for my $unit (@units) {
    print "$unit\n" unless grep { $unit =~ /$_/ && !$known->{$_} } keys %$known;
}
"""


def automatic(asked: Mapping[str, Any], listing: Callable[[], Any]) -> dict[str, Any]:
    """Of units and packages that are asked for, and dpkg's *listing*; each reading by itself."""
    rows, packages = listing(), asked.get("packages", ())
    return {
        "upgrades": attempt(upgrades),
        "restarts": attempt(lambda: restarts(asked.get("units", ()))),
        "origins": rows if is_unmeasured(rows) else attempt(lambda: origins(packages, rows)),
    }


def upgrades() -> str | None:
    """How often unattended upgrades run, as apt's settings say; null where nothing does them."""
    if not (ROOT / "usr/bin/unattended-upgrade").exists():
        return None
    said = _APT.said("apt-config", "dump", "--format", "%v%n", _UPGRADES)
    return said[-1] if said else "0"


def restarts(units: Iterable[str]) -> list[str] | None:
    """Those units that needrestart restarts after an upgrade of what they use; null without it."""
    if not shutil.which("needrestart"):
        return None
    return command(["perl", "-e", _RESTARTS, *units]).split()


def origins(packages: Iterable[str], listing: str) -> dict[str, list[str]]:
    """Installed packages to the repositories that have this version of them.

    All of the driver's, too: their names depend on its branch and on the system, which whoever asks
    may not know yet.
    """
    known = [name for name, *_ in map(str.split, listing.splitlines()) if VENDOR.search(name)]
    names = sorted({*packages, *known})
    return {
        name: list(offer.sources)
        for name, versions in (_APT.offers(names) if names else {}).items()
        for offer in versions
        if offer.installed
    }


def first_boot() -> bool | None:
    """Whether cloud-init has finished this boot; null where it does not run (cloud-init's status).

    Until then it may still install packages and write files of the system.
    """
    run = ROOT / "run/cloud-init"
    return (run / "result.json").exists() if (run / "enabled").exists() else None
