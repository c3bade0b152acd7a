"""Names, addresses and numbers of a site, each replaced by a pseudonym of the same shape. Pure.

A word is kept only where this program's own sources have it (a word that a check compares is one of
them), or where it is a short number, a PCI address, a kernel's device, a part number or a time. All
other words are replaced, so that a secret in a log line does not have to be recognised to be kept
out. One original has one pseudonym, and no two have the same: what was equal stays equal. They are
drawn by a key, which the caller forgets.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Set

from b200kit.node.lib.readings import is_digits

MOST = 4096
"""Characters of one text; the rest is cut."""
_DIGITS = "0123456789"
_HEX = _DIGITS + "abcdef"
_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_SETTING = re.compile(r"-?[0-9]{1,10}")
"""A text that is a number and nothing else: a setting's value."""
_ALNUM = re.compile(r"[^\W_]+")
_DEVICE = re.compile(
    r"(?:nvme[0-9]{1,3}(?:n[0-9]{1,2}(?:p[0-9]{1,2})?)?|md[0-9]{1,3}|dm|sd[a-z]{1,2}[0-9]{0,2}|gpus?[0-9]{1,2}|loop[0-9]{1,3}"
    r"|nvidia[0-9]{1,2}|vllm[0-9]{1,2}|numa[0-9]{1,2}|cpu[0-9]{1,4}|mlx[0-9]|ubuntu[0-9]{1,2}|deb[0-9]{1,2}u[0-9]{1,2}"
    r"|dfsg[0-9]{0,2}|ds[0-9]|cuda[0-9]{1,2}|x86|[0-9]?g[0-9]{3}|g?[bh][0-9]00(?:kit)?|[0-9]{1,4}[kmgt]i?b|hbm[0-9]|l4proto"
    r"|ip[46]|(?:icmp|dhcp)v[46])",
    re.IGNORECASE,
)
_PARTS = (
    ("time", r"[0-9]{4}-[0-9][0-9]-[0-9][0-9]T[0-9][0-9]:[0-9][0-9]:[0-9][0-9]Z"),
    ("uuid", r"(?<![0-9a-f])[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}(?![0-9a-f])"),
    ("pci", r"(?<![\w:])(?:PCI:)?[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}(?:\.[0-7])?(?!\w|:\w|\.\w)"),
    ("hardware address", r"(?<![\w:])(?:[0-9a-f]{2}[:-]){5,19}[0-9a-f]{2}(?![\w:])"),
    ("address", r"(?<![\w:])(?=[0-9a-f:]*(?:::|:[0-9a-f]*:[0-9a-f]*:))[0-9a-f:]{3,}(?!\w)"),
    ("IPv4 address", r"(?<![\w.])(?:[0-9]{1,3}\.){3}[0-9]{1,3}(?![\w]|\.[0-9])"),
    ("part number", r"(?<![\w-])(?:692|699|900|965)-[0-9a-z]{5}-[0-9a-z]{4}-[0-9a-z]{3}(?![\w-])"),
    ("code", r"(?<!\w)0x[0-9a-f]{1,8}(?!\w)"),
    ("word", r"[^\W_]+"),
)  # fmt: skip
_HARMLESS = ("time", "pci", "part number", "code")
"""Forms that are kept; of the part numbers, NVIDIA's."""


class Pseudonyms:
    """The pseudonyms of one bundle.

    *known* are the words of this program. *identities* are texts that stand for the node or a part
    of it wherever they appear: its names, serial numbers and UUIDs.
    """

    def __init__(self, key: bytes, known: Set[str], identities: Iterable[str]) -> None:
        self._key, self._known = key, known
        self._given: dict[str, str] = {}
        self._taken: set[str] = set()
        self.counts: Counter[str] = Counter()
        """Replacements by what was replaced."""
        self._identities = frozenset(identities)
        self._parts = _compiled(self._identities, known)

    def text(self, text: str) -> str:
        """A text with everything replaced that this program does not know."""
        if _SETTING.fullmatch(text) and text not in self._identities:
            return text
        return self._parts.sub(self._part, text)[:MOST]

    def identity(self, text: str, kind: str) -> str:
        """An identity: no word of it is kept, but zeros, which say nothing."""
        self.counts[kind] += 1
        return _ALNUM.sub(self._forced, text)

    def version(self, text: str) -> str:
        """A version: its short parts are kept, too."""
        return self._parts.sub(self._part_of_version, text)

    def _part_of_version(self, match: re.Match[str]) -> str:
        short = match.lastgroup == "word" and len(match[0]) <= 3
        return match[0] if short or match.lastgroup == "IPv4_address" else self._part(match)

    def _part(self, match: re.Match[str]) -> str:
        kind, text = str(match.lastgroup).replace("_", " "), match[0]
        if kind in _HARMLESS or (kind == "word" and self._is_known(text)):
            return text
        if kind == "IPv4 address" and (text.startswith("127.") or not _is_ipv4(text)):
            return text if text.startswith("127.") else _ALNUM.sub(self._number, text)
        self.counts[kind] += 1
        return self._ipv4(text) if kind == "IPv4 address" else _ALNUM.sub(self._forced, text)

    def _number(self, match: re.Match[str]) -> str:
        return match[0] if self._is_known(match[0]) else self._forced(match)

    def _is_known(self, word: str) -> bool:
        short = len(word) == 1 or (is_digits(word) and len(word) <= 6)
        return short or word.lower() in self._known or bool(_DEVICE.fullmatch(word))

    def _forced(self, match: re.Match[str]) -> str:
        """The pseudonym of a run of letters and digits, with capitals where it has them."""
        word = match[0]
        if not word.strip("0") or word in ("GPU", "fe80"):
            return word
        drawn = self._given.get(word.lower()) or self._draw(word.lower())
        pairs = zip(word, drawn, strict=False)
        return "".join(d.upper() if w.isupper() else d for w, d in pairs) + drawn[len(word) :]

    def _draw(self, word: str) -> str:
        for attempt in range(10_000):
            drawn = self._shaped(word, attempt)
            if drawn not in self._taken and drawn != word and drawn not in self._known:
                break
        self._taken.add(drawn)
        self._given[word] = drawn
        return drawn

    def _shaped(self, word: str, attempt: int) -> str:
        """As many characters, of the same kind; after many attempts one more."""
        length = len(word) + attempt // 300
        noise = self._noise(f"{word}\0{attempt}", length)
        shape = (word + word[-1] * length)[:length]
        is_hex = len(word) >= 4 and set(word) <= set(_HEX) and not is_digits(word)
        kinds = _HEX if is_hex else ""
        return "".join(_other(c, kinds, noise[n]) for n, c in enumerate(shape))

    def _noise(self, text: str, length: int) -> bytes:
        drawn = hashlib.shake_256(self._key + text.encode("utf-8", "surrogatepass"))
        return drawn.digest(length)

    def _ipv4(self, text: str) -> str:
        """Another address in 10.0.0.0/8; the one of all interfaces says nothing."""
        if text == "0.0.0.0":  # noqa: S104 - compared, not bound
            return text
        for attempt in range(10_000):
            noise = self._noise(f"{text}\0{attempt}", 3)
            drawn = f"10.{noise[0]}.{noise[1]}.{noise[2]}"
            if self._given.setdefault(drawn, text) == text and drawn != text:
                break
        return drawn


def _other(character: str, kinds: str, noise: int) -> str:
    """One character in place of another: a digit for a digit, a letter for a letter."""
    choice = kinds or (_DIGITS if is_digits(character) else _LETTERS)
    return choice[noise % len(choice)]


def _is_ipv4(text: str) -> bool:
    return all(int(part) < 256 for part in text.split("."))


def _compiled(identities: Iterable[str], known: Set[str]) -> re.Pattern[str]:
    """All that is looked for in a text, identities first and the longest of them before others.

    An identity that is one of the program's own words is no identity in a text.
    """
    own = {text.lower() for text in identities}
    names = sorted((t for t in own if len(t) > 1 and t not in known), key=len, reverse=True)
    parts = [("identity", rf"(?<![^\W_])(?:{'|'.join(map(re.escape, names))})(?![^\W_])")]
    every = (parts if names else []) + list(_PARTS)
    groups = (f"(?P<{name.replace(' ', '_')}>{pattern})" for name, pattern in every)
    return re.compile("|".join(groups), re.IGNORECASE)
