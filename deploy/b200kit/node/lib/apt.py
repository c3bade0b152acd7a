"""apt's and dpkg's programs, called in one way: on a node, and where a mirror is built.

Nothing is asked, a configuration file that its owner changed stays, and needrestart restarts no
fabric manager, nor what serves, as a side effect of ours.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from b200kit.node.lib.apt_output import Offer, errors_of, offers

ENVIRONMENT = {
    "DEBIAN_FRONTEND": "noninteractive", "NEEDRESTART_SUSPEND": "1", "LC_ALL": "C.UTF-8",
}  # fmt: skip
_OPTIONS = (
    "DPkg::Lock::Timeout=300", "Dpkg::Options::=--force-confold", "Acquire::Retries=2",
    # apt 2.6 waits for ever for a delayed retry of a host that it reached at another port.
    "Acquire::http::Timeout=20", "Acquire::Retries::Delay=false",
)  # fmt: skip
# In memory: a look writes nothing, and apt would renew caches that are older than its lists.
_CACHES = ("Dir::Cache::pkgcache=", "Dir::Cache::srcpkgcache=")
INSTALL = (
    "install", "--no-install-recommends", "--allow-downgrades", "--allow-change-held-packages",
)  # fmt: skip
# Errors of any index fail it: a stale list would quietly install what it still knows.
UPDATE = ("update", "--error-on=any")


class AptFailed(OSError):
    """A program failed; the text is its first line that says why, where that was not shown."""


@dataclass(frozen=True)
class Apt:
    """The programs with *settings* of their own, words that come after all that is configured."""

    settings: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    limit_s: float | None = None

    def attempt(self, program: str, *words: str) -> tuple[bool, list[str]]:
        """Whether it exits 0, and what it prints; its errors, too, where it does not.

        Raises OSError where there is no such program.
        """
        try:
            done = subprocess.run(
                self._line(program, words), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                # dpkg's errors are about the line before.
                stderr=subprocess.STDOUT if program == "dpkg" else subprocess.PIPE, text=True,
                errors="replace", env=self._whole(), timeout=self.limit_s, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return False, [f"E: {program} took more than {self.limit_s:g} s"]
        errors = (done.stderr or "").splitlines() if done.returncode else []
        return done.returncode == 0, [*done.stdout.splitlines(), *errors]

    def said(self, program: str, *words: str) -> list[str]:
        """What it prints; raises AptFailed where it does not exit 0."""
        done, lines = self.attempt(program, *words)
        if not done:
            raise AptFailed(errors_of(lines)[0])
        return lines

    def act(self, program: str, *words: str) -> None:
        """Run it, what it prints being this program's own output; raises AptFailed."""
        sys.stdout.flush()
        line = self._line(program, words)
        done = subprocess.run(line, stdin=subprocess.DEVNULL, env=self._whole(), check=False)
        if done.returncode:
            raise AptFailed("")

    def offers(self, names: Iterable[str]) -> dict[str, list[Offer]]:
        """The versions that there are of packages, newest first. Raises AptFailed."""
        words = [word for cache in _CACHES for word in ("-o", cache)]
        return offers("\n".join(self.said("apt-cache", *words, "policy", *names)))

    def _line(self, program: str, words: Iterable[str]) -> list[str]:
        if program == "dpkg":
            return [program, "--force-confold", *words]
        ours = [word for option in _OPTIONS for word in ("-o", option)]
        return [program, *ours, *self.settings, *words]

    def _whole(self) -> dict[str, str]:
        return {**os.environ, **ENVIRONMENT, **self.environment}


def of_list(path: str | None) -> Apt:
    """apt that reads one list of sources alone, or all where there is none to name.

    With a mirror the node's own may point where there is no way to; their indexes stay.
    """
    chosen = (f"Dir::Etc::sourcelist={path}", "Dir::Etc::sourceparts=/dev/null",
              "APT::Get::List-Cleanup=false") if path else ()  # fmt: skip
    return Apt(tuple(word for option in chosen for word in ("-o", option)))
