"""`apt-trial`: what the node's own apt makes of a run's sources and packages; changes nothing.

apt gets directories of sources and preferences with the run's files beside links to the node's, and
lists and caches of its own, in a folder below /run that is removed at the end (/run/b200kit is
root's alone, and apt downloads as another user). The same commands as an installation's: update,
candidates, and the transaction simulated.
"""

from __future__ import annotations

import base64
import json
import os
import re
import subprocess
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from b200kit.node.lib import documents
from b200kit.node.lib.apt_output import offers, with_reasons
from b200kit.node.packages import candidates
from b200kit.node.packages.resolve import own_sources

APT = Path("/etc/apt")
PARENT = Path("/run")
# What follows from another line.
_GENERAL = re.compile(r"Some index files failed|list of sources could not be read")
_TELLING = re.compile(r"^E: |^ .*\b(Depends|Conflicts|Breaks|Recommends): ")
# A node's hooks act on the real system: an update of ours must run none.
_CONF = """\
{sources}
Dir::Etc::preferencesparts "{root}/preferences.d";
#clear APT::Update::Pre-Invoke;
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
#clear DPkg::Pre-Invoke;
#clear DPkg::Post-Invoke;
Dir::State::lists "{root}/lists";
Dir::Cache "{root}/cache";
Acquire::GzipIndexes "true";
Acquire::Languages "none";
Acquire::Retries "1";
Acquire::http::Timeout "15";
Acquire::https::Timeout "15";
"""


class Trial:
    """apt as configured on the node, with the run's *files*; of lists *only* one, if it says."""

    def __init__(
        self, root: Path, files: Mapping[str, bytes], limit_s: float, only: str | None
    ) -> None:
        # apt's downloads are another user's, who must come through.
        root.chmod(0o755)
        self.root, self.limit_s, self.lists = root, limit_s, root / "sources.list.d"
        for name in ("sources.list.d", "preferences.d"):
            (root / name).mkdir()
            for own in (APT / name).glob("*"):
                (root / name / own.name).symlink_to(own)
        for folder in ("lists/partial", "cache/archives/partial"):
            (root / folder).mkdir(parents=True)
        for path, content in files.items():
            target = root / Path(path).relative_to("/etc/apt")
            if target.parent.is_dir():  # no other kind of file says what there is to install
                target.unlink(missing_ok=True)
                target.write_bytes(content)
        listed = self.lists / Path(only).name if only else APT / "sources.list"
        parts = "/dev/null" if only else self.lists
        sources = f'Dir::Etc::sourcelist "{listed}";\nDir::Etc::sourceparts "{parts}";'
        (root / "apt.conf").write_text(_CONF.format(sources=sources, root=root))

    def run(self, *argv: str) -> tuple[bool, list[str]]:
        """Whether one of apt's programs exits 0, and what it says."""
        # The file of -c is read after the node's own configuration.
        environment = {**os.environ, "LC_ALL": "C.UTF-8"}
        program, *rest = argv
        try:
            done = subprocess.run(
                [program, "-c", str(self.root / "apt.conf"), *rest], capture_output=True, text=True,
                errors="replace", timeout=self.limit_s, env=environment,
                stdin=subprocess.DEVNULL, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return False, [f"E: {program} took more than {self.limit_s:g} s"]
        text = (done.stdout + done.stderr).replace(str(self.root), "/etc/apt")
        return done.returncode == 0, text.splitlines()


def trial(request: Mapping[str, Any]) -> dict[str, Any]:
    """What apt says of {"files", "packages" as tokens, "absent", "simulate", "only", "limit_s"}."""
    PARENT.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="b200kit-apt-trial-", dir=PARENT) as root:
        files = {path: base64.b64decode(text) for path, text in request["files"].items()}
        return _tried(Trial(Path(root), files, request["limit_s"], request.get("only")), request)


def _tried(apt: Trial, request: Mapping[str, Any]) -> dict[str, Any]:
    updated, lines = apt.run("apt-get", "update", "--error-on=any")
    errors = [] if updated else errors_of(lines)
    desired = [candidates.package(token) for token in request["packages"]]
    _, asked = apt.run("apt-get", "indextargets", "--format", "$(REPO_URI)")
    _, policy = apt.run("apt-cache", "policy", *(each.name for each in desired))
    choice = candidates.choose(
        desired,
        offers("\n".join(policy)),
        sorted({url for url in asked if url}),
        own_sources(apt.lists),
    )
    return {
        "update": errors,
        "problems": [] if errors else list(choice.problems),
        "missing": sorted(each.key for each in choice.missing),
        "install": _simulated(apt, choice.words, request) if not errors else None,
    }


def _simulated(apt: Trial, words: Iterable[str], request: Mapping[str, Any]) -> list[str] | None:
    """Why apt would not install; empty when it would, null when it was not asked."""
    if not request["simulate"]:
        return None
    done, lines = apt.run(
        "apt-get", "install", "--simulate", "--no-install-recommends", "--allow-downgrades",
        "--allow-change-held-packages", *words, *(f"{name}-" for name in request["absent"]),
    )  # fmt: skip
    return [] if done else errors_of(lines)


def errors_of(lines: Iterable[str]) -> list[str]:
    """The lines that say why, without apt's mark, each once."""
    telling = [line for line in with_reasons(list(lines)) if _TELLING.search(line)]
    said = [re.sub(r"^E: |\s+", " ", line).strip() for line in telling]
    exact = [line for line in dict.fromkeys(said) if not _GENERAL.search(line)]
    return exact or said or ["apt failed and gave no reason"]


def main(args: list[str]) -> int:
    """Print what apt says as JSON; 0 whatever it is, 2 for a request that is none."""
    del args
    print(json.dumps(trial(documents.request())))
    return 0
