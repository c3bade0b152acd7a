"""A fabric that is cut: GPUs that reach each other inside a group and nobody outside. Pure.

No GPU of a group is at fault where both groups work: what lies between them is.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from b200kit.node.checks.node_scale import in_words

Pair = tuple[int, int]
_WORDS = {2: "halves", 3: "thirds", 4: "quarters"}


def groups(count: int, bad: Collection[Pair]) -> list[list[int]]:
    """The GPUs by position, apart where no pair that is not bad connects them."""
    left, found = list(range(count)), []
    while left:
        group = [left.pop(0)]
        for here in group:  # it grows meanwhile
            group += [to for to in left if (here, to) not in bad and (to, here) not in bad]
            left = [to for to in left if to not in group]
        found.append(sorted(group))
    return found


def is_cut(groups: Sequence[Collection[object]]) -> bool:
    """Whether it is the fabric and no single GPU: two groups or more of several GPUs each."""
    return sum(len(group) > 1 for group in groups) > 1


def in_parts(groups: Sequence[Sequence[str]]) -> str:
    """ "the fabric is cut in two halves: GPU 0-3 | 4-7", from the names of the GPUs."""
    words = [in_words(group) for group in groups]
    words[1:] = [word.removeprefix("GPU ") for word in words[1:]]
    number = {2: "two", 3: "three", 4: "four"}.get(len(groups), str(len(groups)))
    even = len({len(group) for group in groups}) == 1
    parts = _WORDS.get(len(groups), "parts") if even else "parts"
    return f"the fabric is cut in {number} {parts}: {' | '.join(words)}"
