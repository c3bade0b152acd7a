"""Packages with all that they depend on, by apt itself: the solver that the nodes use.

apt works in a directory of its own, with its own lists, cache, sources and preferences. It assumes
that no package is installed, so that the closure is complete for any node. How it reaches the
archives is this machine's own setting (its Acquire options).
"""

from __future__ import annotations

import platform
import re
from dataclasses import replace
from pathlib import Path

from b200kit.inventory import openpgp
from b200kit.node.lib.apt import UPDATE, Apt, AptFailed
from b200kit.node.lib.apt_output import offers
from b200kit.node.packages import candidates
from b200kit.node.weights.manifest import ManifestFile
from b200kit.run.render import render
from b200kit.supply.mirror.needs import PackageSet
from b200kit.supply.program import SupplyRefused

_MISSING = "apt-get is not installed: a mirror is built on Debian or Ubuntu"
_UPDATE_S, _FETCH_S = 900, 7200
_APT = Path("/etc/apt")
# 'http://.../numactl_2.0.16-1_amd64.deb' numactl_2.0.16-1_amd64.deb 39236 SHA256:9c...
_ROW = re.compile(r"'(\S+)' (\S+) ([0-9]+) SHA256:([0-9a-f]{64})")
_CONF = """\
{acquire}
Acquire::ForceHash "SHA256";
Acquire::Languages "none";
APT::Architecture "amd64";
APT::Architectures {{ "amd64"; }};
APT::Install-Recommends "false";
APT::Sandbox::User "root";
Debug::NoLocking "true";
Dir::Etc::main "/dev/null";
Dir::Etc::parts "/dev/null";
Dir::Etc::sourcelist "/dev/null";
Dir::Etc::sourceparts "{root}/sources.list.d";
Dir::Etc::preferences "{root}/preferences";
Dir::Etc::preferencesparts "/dev/null";
Dir::State "{root}/state";
Dir::State::lists "{root}/state/lists";
Dir::State::status "{root}/status";
Dir::Cache "{root}/cache";
"""


class Closure:
    """apt for one transaction; *pool* is where its packages come to lie."""

    def __init__(
        self, work: Path, of: PackageSet, pool: Path, distribution: Path | None = None
    ) -> None:
        self.root, self.of = work, of
        for folder in ("state/lists/partial", "cache", "sources.list.d"):
            (work / folder).mkdir(parents=True, exist_ok=True)
        self.pool = pool
        (work / "status").write_bytes(b"")
        (work / "preferences").write_text(of.preferences, encoding="utf-8")
        self._write_sources(distribution)
        conf = _CONF.format(root=work, acquire=_acquire())
        (work / "apt.conf").write_text(conf, encoding="utf-8")
        self.apt = Apt(environment={"APT_CONFIG": str(work / "apt.conf")}, limit_s=_UPDATE_S)

    def _write_sources(self, distribution: Path | None) -> None:
        parts = self.root / "sources.list.d"
        for old in parts.iterdir():
            old.unlink()
        if distribution:
            (parts / "distribution.sources").write_bytes(distribution.read_bytes())
        else:
            self._copy_own(parts)
        for each in self.of.repositories:
            try:
                text = Path(each.key).read_text(errors="replace")
                key = openpgp.embedded(text, each.fingerprint)
            except FileNotFoundError:
                keys = f"b200 keys {self.of.system} --to {Path(each.key).parent}"
                raise SupplyRefused(f"{each.key} is not there: {keys}") from None
            except (OSError, ValueError) as error:
                raise SupplyRefused(f"{each.key}: {error}") from None
            source = render("apt/repository.sources.j2", repository=each, key=key)
            (parts / f"{each.name}.sources").write_bytes(source)

    def _copy_own(self, parts: Path) -> None:
        """The archives of this machine, if it runs the nodes' system: no other is known here."""
        own = platform.freedesktop_os_release()
        named = f"{own['ID']}{own.get('VERSION_ID', '').replace('.', '')}"
        if named != self.of.system:
            give = f"--distribution {self.of.system}=FILE, a .sources file of its archive"
            raise SupplyRefused(f"{self.of.system}: this machine runs {named}: give {give}")
        listed = [_APT / "sources.list", *sorted((_APT / "sources.list.d").glob("*"))]
        for number, file in enumerate(each for each in listed if each.is_file()):
            (parts / f"own-{number}{file.suffix}").write_bytes(file.read_bytes())

    def closure(self) -> dict[str, ManifestFile]:
        """Every package file that is needed, by the name that it gets, with where it is from."""
        self._run("apt-get", *UPDATE)
        names = [each.name for each in self.of.packages]
        offered = offers(self._run("apt-cache", "policy", *names))
        asked = [each.url for each in self.of.repositories]
        choice = candidates.choose(self.of.packages, offered, [*asked, "the distribution"])
        if choice.problems:
            raise SupplyRefused(f"{self.of.system}: {choice.problems[0]}")
        self.words = choice.words
        rows = _ROW.findall(self._install("--print-uris", "-qq"))
        if not rows:
            raise SupplyRefused(f"{self.of.system}: apt names no SHA-256 of what it would fetch")
        return {url: ManifestFile(name, int(size), sha256) for url, name, size, sha256 in rows}

    def fetch(self) -> None:
        """Bring the closure into the pool; what is there already stays, what was begun goes on."""
        (self.pool / "partial").mkdir(parents=True, exist_ok=True)
        archives = f"Dir::Cache::archives={self.pool}"
        self._install("-o", archives, "--download-only", "-q", limit=_FETCH_S)

    def _install(self, *how: str, limit: float = _UPDATE_S) -> str:
        return self._run("apt-get", "install", "-y", *how, *self.words, limit=limit)

    def _run(self, *argv: str, limit: float = _UPDATE_S) -> str:
        try:
            return "\n".join(replace(self.apt, limit_s=limit).said(*argv))
        except FileNotFoundError:
            raise SupplyRefused(_MISSING) from None
        except AptFailed as error:
            raise SupplyRefused(f"{self.of.system}: {error}") from None


def _acquire() -> str:
    """How this machine reaches archives: proxies, certificates, limits."""
    try:
        _, lines = Apt().attempt("apt-config", "dump", "Acquire")
    except FileNotFoundError:
        raise SupplyRefused(_MISSING) from None
    wanted = re.compile(r"Acquire::(https?|ftp|Proxy|ForceIPv[46])\b.*[^:] \".+\";")
    return "\n".join(filter(wanted.match, lines))
