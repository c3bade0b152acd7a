"""The vendors' repository keys: each is what the catalogue pins, or it is refused."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import requests

from b200kit.catalog.types import Preset
from b200kit.inventory import openpgp
from b200kit.node.lib import durable_files
from b200kit.supply.program import SupplyRefused

_DEADLINE_S = 30
_LARGEST, _BLOCK = 1 << 20, 1 << 14


def bring(preset: Preset, folder: Path, given: Path | None = None) -> bool:
    """Put a repository's key, and no other of the file that it is in, below *folder*.

    It comes from the vendor, or from the file *given*. Returns whether it was not there yet; raises
    SupplyRefused.
    """
    path = folder / f"{preset.name}.asc"
    if _is_there(path, preset.fingerprint):
        return False
    where = str(given or preset.key_url)
    try:
        key = openpgp.canonical(_read(given) if given else _fetch(where), preset.fingerprint)
        folder.mkdir(parents=True, exist_ok=True)
        durable_files.replace(path, key.decode(), 0o644)
    except (ValueError, OSError) as error:
        # requests' errors are OSErrors.
        raise SupplyRefused(f"{preset.name}: {where}: {_words(error)}") from None
    return True


def _is_there(path: Path, fingerprint: str) -> bool:
    try:
        return openpgp.fingerprints(path.read_text(errors="replace")) == [fingerprint]
    except (ValueError, OSError):
        return False


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace")


def _fetch(url: str) -> str:
    with requests.get(url, timeout=_DEADLINE_S, stream=True) as answer:
        answer.raise_for_status()
        # Of a key whose rest is cut off, openpgp says so.
        blocks = islice(answer.iter_content(_BLOCK), _LARGEST // _BLOCK)
        return b"".join(blocks).decode("utf-8", "replace")


def _words(error: Exception) -> str:
    if isinstance(error, requests.HTTPError) and error.response is not None:
        return f"HTTP {error.response.status_code}"
    if isinstance(error, requests.RequestException):
        return f"no answer ({type(error).__name__})"
    if isinstance(error, OSError):
        return str(error.strerror or error)
    return str(error)
