"""`apt-trial`: what the node's own apt makes of a run's sources and packages; changes nothing.

apt gets directories of sources and preferences with the run's files beside links to the node's, and
lists and caches of its own, in a folder below /run that is removed at the end (/run/b200kit is
root's alone, and apt downloads as another user). The same commands as an installation's: update,
candidates, and the transaction simulated.
"""

from __future__ import annotations

import base64
import json
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from b200kit.node.lib import documents
from b200kit.node.lib.apt import UPDATE, Apt
from b200kit.node.lib.apt_output import errors_of
from b200kit.node.packages.transaction import PackageTransaction, choose, simulated

APT = Path("/etc/apt")
PARENT = Path("/run")
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
"""


@dataclass(frozen=True)
class AptTrial:
    """What a run would do: its *files* below /etc/apt in base64, and its packages as one
    transaction, which is simulated where that says something. *limit_s* is for each program.
    """

    transaction: PackageTransaction
    files: dict[str, str]
    simulate: bool
    limit_s: float


def configured(root: Path, files: Mapping[str, str], only: str | None) -> Apt:
    """apt as configured on the node, with *files* of a run; of lists *only* one, if it says."""
    # apt's downloads are another user's, who must come through.
    root.chmod(0o755)
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
            target.write_bytes(base64.b64decode(content))
    lists = root / "sources.list.d"
    listed = lists / Path(only).name if only else APT / "sources.list"
    sources = f'Dir::Etc::sourcelist "{listed}";\n'
    sources += f'Dir::Etc::sourceparts "{"/dev/null" if only else lists}";'
    (root / "apt.conf").write_text(_CONF.format(sources=sources, root=root))
    # The file of -c is read after the node's own configuration.
    return Apt(("-c", str(root / "apt.conf")))


def tried(asked: AptTrial) -> dict[str, Any]:
    """What apt says: of the sources, of the packages, and why it would not install them.

    The reason is empty where apt would install them, and null where it was not asked. Where a
    source is wrong, packages are not asked about.
    """
    PARENT.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="b200kit-apt-trial-", dir=PARENT) as folder:
        root, transaction = Path(folder), asked.transaction
        apt = configured(root, asked.files, transaction.only)
        apt = replace(apt, limit_s=asked.limit_s)
        updated, lines = apt.attempt("apt-get", *UPDATE)
        if not updated:
            said: dict[str, Any] = {"problems": [], "missing": [], "install": None}
            return {"update": _errors(lines, folder), **said}
        choice, _ = choose(apt, transaction.packages, root / "sources.list.d")
        words = (*choice.words, *(f"{name}-" for name in transaction.absent))
        possible, lines = simulated(apt, *words) if asked.simulate else (True, [])
        return {
            "update": [],
            "problems": list(choice.problems),
            "missing": sorted(each.key for each in choice.missing),
            "install": ([] if possible else _errors(lines, folder)) if asked.simulate else None,
        }


def _errors(lines: list[str], folder: str) -> list[str]:
    return [line.replace(folder, str(APT)) for line in errors_of(lines)]


def main(args: list[str]) -> int:
    """Print what apt says as JSON; 0 whatever it is, 2 for a request that is none."""
    del args
    print(json.dumps(tried(documents.structure(AptTrial, documents.request()))))
    return 0
