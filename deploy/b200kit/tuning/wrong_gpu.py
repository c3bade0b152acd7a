"""Whether wrong answers follow a GPU or a replica, from rounds with moved GPUs. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

Gpu = tuple[int, str]
"""Index and UUID."""


@dataclass(frozen=True)
class Round:
    """Which GPUs each replica had, and what was wrong with its answers; nothing where they fit."""

    gpus: Mapping[int, Sequence[Gpu]]
    faults: Mapping[int, str]

    @property
    def wrong(self) -> set[int]:
        """Replicas that answered otherwise."""
        return {replica for replica, fault in self.faults.items() if fault}

    @property
    def suspects(self) -> set[Gpu]:
        """GPUs of replicas that answered otherwise."""
        return {gpu for replica in self.wrong for gpu in self.gpus[replica]}


def rounds_needed(width: int) -> int:
    """Rounds, a GPU further each, until no two GPUs were always together, nor any stayed.

    width: GPUs of a replica.
    """
    return width + 1


def followed(rounds: Sequence[Round]) -> set[Gpu]:
    """GPUs under a replica that answered otherwise in every round."""
    return set.intersection(*(one.suspects for one in rounds)) if rounds else set()


def stayed(rounds: Sequence[Round]) -> set[int]:
    """Replicas that answered otherwise in every round, whichever GPUs they had."""
    return set.intersection(*(one.wrong for one in rounds)) if rounds else set()


def words(rounds: Sequence[Round]) -> str:
    """What the rounds say, on one line; empty where all answers were right."""
    gpus, replicas = followed(rounds), stayed(rounds)
    seen = len(rounds)
    if not any(one.wrong for one in rounds):
        return ""
    if len(gpus) == 1 and not replicas:
        [(index, uuid)] = gpus
        places = ", ".join(f"{_place(one, (index, uuid))}" for one in rounds)
        return f"wrong answers follow GPU {index} ({uuid}): wrong in all {seen} places ({places})"
    if replicas and not gpus:
        names = ", ".join(f"replica {one}" for one in sorted(replicas))
        return (
            f"wrong answers stay with {names} in all {seen} rounds and follow no GPU: look at its"
            " CPUs, memory, files and environment"
        )
    each = "; ".join(
        f"round {number}: {', '.join(f'replica {one}' for one in sorted(found.wrong)) or 'none'}"
        for number, found in enumerate(rounds, 1)
    )
    return f"wrong answers follow neither one GPU nor one replica ({each})"


def _place(found: Round, gpu: Gpu) -> str:
    return next(f"replica {name}" for name, gpus in found.gpus.items() if gpu in gpus)
