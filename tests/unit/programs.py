"""Programs of schedulers on PATH that keep their arguments and answer as configured."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Self

import pytest


class Programs:
    """Programs on PATH that keep their arguments and answer as configured."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.log = folder / "log"
        self.keeps = ""
        """What the shell keeps behind the arguments, such as "$VARIABLE"."""

    @classmethod
    def on_path(cls, folder: Path, patch: pytest.MonkeyPatch) -> Self:
        """Programs that are found before the machine's own."""
        folder.mkdir()
        patch.setenv("PATH", f"{folder}:/usr/bin:/bin")
        patch.delenv("B200_WHY", raising=False)
        return cls(folder)

    def answer(self, program: str, *answers: tuple[str, str, int]) -> None:
        """Say something, and exit with a status, by the first words of the arguments."""
        cases = [
            f"{shlex.quote(words)}*) printf '%s\\n' {shlex.quote(text)} >&$(( {code} ? 2 : 1 ));"
            f" exit {code};;"
            for words, text, code in answers
        ]
        path = self.folder / program
        keep = f'printf "%s" "{program}" >> {self.log}; '
        keep += f'for a; do printf "|%s" "$a" >> {self.log}; done; '
        keep += f'echo "|{self.keeps}" >> {self.log}'
        path.write_text(f'#!/bin/sh\n{keep}\ncase "$*" in {" ".join(cases)} esac\n')
        path.chmod(0o755)

    def ran(self) -> list[str]:
        """Every call with its arguments, as "program|one|two"."""
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        self.log.unlink(missing_ok=True)
        return [line.rstrip("|") for line in lines]
