"""SHA256SUMS of a mirror: every other file, until when it is good, and its serial.

    # serial 1764253086
    # expires 2027-05-26T12:00:00Z
    # for debian12, driver 580.126.20, vllm 0.33.0, llama-3.3-70b-fp8
    0b2c...  wheels/vllm-0.33.0-....whl

The serial is the time of making, in seconds since 1970: a later mirror has a greater one. The file
is signed by the mirror's OpenPGP key (SHA256SUMS.asc), the one that its packages are signed by, and
`sha256sum --check` reads it, too. Nodes don't: for them apt's signatures, the lock's hashes and the
model's manifest prove the same bytes. It is for those who carry the mirror.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from b200kit.node.lib import documents, timestamp
from b200kit.node.weights.download import sha256
from b200kit.supply.mirror import signature
from b200kit.supply.program import SupplyRefused

NAME, SIGNATURE = "SHA256SUMS", "SHA256SUMS.asc"
OWN = (NAME, SIGNATURE)
_HEAD = re.compile(r"# serial ([0-9]{1,11})\n# expires (\S+)\n# for (.*)\n")
_LINE = re.compile(r"([0-9a-f]{64})  (.+)")
_MOST_BYTES = 64 << 20
_PARALLEL = 4
Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Sums:
    """What a mirror says of itself; *files* are SHA-256 by path."""

    made: datetime
    expires: datetime
    described: str
    files: Mapping[str, str]

    @property
    def serial(self) -> int:
        """What grows from one mirror to the next."""
        return int(self.made.timestamp())

    @property
    def is_fresh(self) -> bool:
        """Whether more than a third of its time is left, so that it need not be signed again."""
        return self.expires - datetime.now(UTC) > (self.expires - self.made) / 3

    def text(self) -> str:
        """The file."""
        head = (
            f"# serial {self.serial}\n# expires {timestamp.text(self.expires)}\n"
            f"# for {self.described}\n"
        )
        return head + "".join(f"{sha}  {path}\n" for path, sha in sorted(self.files.items()))


def parse(raw: bytes) -> Sums:
    """The sums in *raw*; SupplyRefused for any other text, and for paths that climb out."""
    text = raw.decode("utf-8", "replace")
    head = _HEAD.match(text)
    if not head:
        raise SupplyRefused(f"{NAME} is not that of a mirror")
    files: dict[str, str] = {}
    for line in text[head.end() :].removesuffix("\n").split("\n"):
        found = _LINE.fullmatch(line) if line.isprintable() and "\\" not in line else None
        if not found or {"", ".", ".."} & {*found[2].split("/")}:
            raise SupplyRefused(
                f"{NAME} has a line that is no SHA-256 and path in it: {line[:80]!r}"
            )
        if found[2] in OWN or found[2] in files:
            raise SupplyRefused(f"{NAME} names {found[2]}, which it cannot prove")
        files[found[2]] = found[1]
    try:
        expires = timestamp.parse(head[2])
    except ValueError:
        raise SupplyRefused(f"{NAME} does not say when it expires") from None
    return Sums(datetime.fromtimestamp(int(head[1]), UTC), expires, head[3], files)


def read(root: Path) -> Sums:
    """The sums of a directory, held to no signature; OSError, SupplyRefused."""
    return parse(documents.content(root / NAME, _MOST_BYTES))


def trusted(root: Path, key: Path, after: Path | None = None) -> Sums:
    """The sums of a directory, if *key* signed them and their time is not over.

    They must not be older than those of *after*, the mirror that they are to replace. Raises
    SupplyRefused.
    """
    for each in (root / NAME, root / SIGNATURE):
        if each.is_symlink() or not each.is_file():
            raise SupplyRefused(f"{each} is not there")
    signature.require(root / NAME, root / SIGNATURE, key)
    found, now = read(root), datetime.now(UTC)
    if now >= found.expires:
        raise SupplyRefused(f"{NAME} expired on {found.expires:%Y-%m-%d}: build the mirror again")
    # Clocks differ by some minutes.
    if found.made > now + timedelta(hours=1):
        when = timestamp.text(found.made)
        raise SupplyRefused(f"{NAME} is of {when}, which is yet to come: check the clock")
    if after and found.made < (there := read(after)).made:
        raise SupplyRefused(
            f"{root} has the serial {found.serial}, of {found.made:%Y-%m-%d}; {after} is newer, "
            f"{there.serial}, of {there.made:%Y-%m-%d}"
        )
    return found


def problems(root: Path, of: Sums, progress: Progress) -> Iterator[str]:
    """What is not as the sums say, one line each; all bytes are read."""
    for path in sorted(root.rglob("*")):
        name = path.relative_to(root).as_posix()
        if path.is_symlink():
            yield f"{name}: a link, where only files belong"
        elif not path.is_dir() and name not in of.files and name not in OWN:
            yield f"{name}: one too many, {NAME} does not name it"

    def look(name: str) -> str:
        path = root / name
        if path.is_symlink():
            return ""
        if not path.is_file():
            return f"{name}: missing"
        same = sha256(path) == of.files[name]
        return "" if same else f"{name}: another content than {NAME} says"

    with ThreadPoolExecutor(_PARALLEL) as pool:
        for number, line in enumerate(pool.map(look, of.files), 1):
            progress(number, len(of.files))
            if line:
                yield line
