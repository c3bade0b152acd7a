"""Pythons of this machine, by version."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

OWN = "{}.{}".format(*sys.version_info)


@cache
def interpreter(version: str) -> str | None:
    """The program of a version; None where this machine has none that runs."""
    if version == OWN:
        return sys.executable
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    uv = Path(os.environ.get("UV_PYTHON_INSTALL_DIR") or Path.home() / ".local/share/uv/python")
    installed = [*pyenv.glob(f"{version}.*"), *uv.glob(f"cpython-{version}.*")]
    # pyenv's shim on PATH runs none but the chosen versions.
    found = [shutil.which(f"python{version}"), *(str(one / "bin/python3") for one in installed)]
    return next((one for one in found if one and _version_of(one) == version), None)


def _version_of(program: str) -> str:
    ask = [program, "-I", "-c", "import sys; print('{}.{}'.format(*sys.version_info))"]
    return subprocess.run(ask, capture_output=True, text=True, check=False).stdout.strip()
