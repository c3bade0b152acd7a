"""What the whole suite needs of this machine, installed once before the first test."""

from __future__ import annotations

import sys

import pytest

from tests.lab.shell import ensure_host_packages, missing_host_packages


def pytest_sessionstart(session: pytest.Session) -> None:
    """A compiler, gpg and the lab's tools: a fresh machine has few of them."""
    del session
    if missing_host_packages():
        ensure_host_packages(lambda line: print(line, file=sys.stderr, flush=True))
