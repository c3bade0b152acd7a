"""`apt-trial`: what the node's own apt makes of a run's sources and packages; changes nothing.

A copy of /etc/apt with the run's files on top, and lists and caches of its own, in a folder below
/run that is removed at the end (/run/b200kit is root's alone, and apt downloads as another user).
The same commands as an installation's: update, candidates, and the transaction simulated.
"""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
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
_URL = re.compile(r"\b[a-z][a-z0-9+]*:/[^\s'\"\]]+")
# A node's hooks act on the real system: an update of ours must run none.
_CONF = """\
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
_ONLY = 'Dir::Etc::sourcelist "{source}";\nDir::Etc::sourceparts "/dev/null";\n'


class Trial:
    """apt with a copy of the node's configuration below *root*; of lists *only* one, if it says."""

    def __init__(
        self,
        root: Path,
        files: Mapping[str, bytes],
        limit_s: float = 120,
        only: str | None = None,
    ) -> None:
        # apt's downloads are another user's, who must come through; the secrets keep their modes.
        root.chmod(0o711)
        self.root, self.etc, self.limit_s = root, root / "etc", limit_s
        self.only = self.etc / Path(only).relative_to("/etc/apt") if only else None
        shutil.copytree(APT, self.etc, symlinks=True, ignore=shutil.ignore_patterns("*.lock"))
        for folder in ("lists/partial", "cache/archives/partial", "apt.conf.d"):
            (root / folder).mkdir(parents=True)
        for path, content in files.items():
            target = self.etc / Path(path).relative_to("/etc/apt")
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
        self._own_keyrings([path for path in files if "/keyrings/" in path])
        conf = self.etc / "apt.conf.d"
        conf.mkdir(exist_ok=True)
        sources = _ONLY.format(source=self.only) if only else ""
        (conf / "zz-b200kit-trial").write_text(_CONF.format(root=root) + sources)
        (root / "apt.conf").write_text(f'Dir::Etc "{self.etc}/";\n')

    def _own_keyrings(self, paths: Iterable[str]) -> None:
        """Every source that names a keyring of the run's is given its copy."""
        for source in self.sources():
            text = source.read_text("utf-8", "replace")
            for path in paths:
                text = text.replace(path, str(self.etc / Path(path).relative_to("/etc/apt")))
            source.write_text(text)

    def sources(self) -> list[Path]:
        """The files that name repositories."""
        if self.only:
            return [self.only]
        listed = [self.etc / "sources.list", *(self.etc / "sources.list.d").glob("*")]
        return sorted(p for p in listed if p.is_file() and p.suffix in (".list", ".sources"))

    def run(self, *argv: str) -> tuple[bool, list[str]]:
        """Whether one of apt's programs exits 0, and what it says."""
        environment = {**os.environ, "LC_ALL": "C.UTF-8", "APT_CONFIG": str(self.root / "apt.conf")}
        try:
            done = subprocess.run(
                argv, capture_output=True, text=True, errors="replace", timeout=self.limit_s,
                env=environment, stdin=subprocess.DEVNULL, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return False, [f"E: {argv[0]} took more than {self.limit_s:g} s"]
        text = (done.stdout + done.stderr).replace(str(self.etc), "/etc/apt")
        return done.returncode == 0, text.splitlines()

    def named_in(self, lines: Iterable[str]) -> dict[str, list[str]]:
        """Each repository that some lines are about, to the files that name it."""
        said, found = "\n".join(lines), dict[str, list[str]]()
        for source in self.sources():
            for url in sorted(set(_URL.findall(_without_comments(source)))):
                if url.rstrip("/") in said:
                    name = f"/etc/apt/{source.relative_to(self.etc)}"
                    found.setdefault(url.rstrip("/"), []).append(name)
        return found


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
    _, targets = apt.run("apt-get", "indextargets", "--format", "$(COMPONENT) $(REPO_URI)")
    rows = [line.split(" ") for line in targets if line.count(" ") == 1]
    _, policy = apt.run("apt-cache", "policy", *(each.name for each in desired))
    choice = candidates.choose(
        desired,
        offers("\n".join(policy)),
        sorted({url for _, url in rows}),
        own_sources(apt.etc / "sources.list.d"),
    )
    return {
        "update": errors,
        "named_in": apt.named_in(errors),
        # A flat repository has none, and apt leaves the word as it is.
        "components": sorted({word for word, _ in rows if not word.startswith("$")}),
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


def _without_comments(source: Path) -> str:
    return re.sub(r"(?m)^\s*#.*$", "", source.read_text("utf-8", "replace"))


def main(args: list[str]) -> int:
    """Print what apt says as JSON; 0 whatever it is, 2 for a request that is none."""
    del args
    print(json.dumps(trial(documents.request())))
    return 0
