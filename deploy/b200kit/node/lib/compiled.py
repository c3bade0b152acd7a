"""The installed program compiled for this node's Python: a short command takes half of the time.

Python keeps no compiled modules of a zipapp, so each start compiled them again: 0.25 s of 0.5 s of
a CPU for an observation (measured, Python 3.11). `put` leaves a second archive beside the program,
and the program imports from it. Its name has what changes whenever the program is written, so one
of another program is never taken; without one the program runs as before. __main__ of the program
imports this module on its own, before the package.
"""

from __future__ import annotations

import os
import sys

INSTALLED = "/usr/local/lib/b200kit/node.pyz"
_UNFINISHED = ".compiled-"
_KEPT = 2
"""With the one before: a process of the former program may still import from it."""


def prefer() -> None:
    """Import from the compiled archive, if there is one of the program that runs."""
    if sys.path[0] == INSTALLED and (found := place(INSTALLED)) and os.path.exists(found):
        sys.path.insert(0, found)


def place(program: str) -> str | None:
    """Where the compiled archive of a program is to be; None where there is no program."""
    try:
        known = os.stat(program)
    except OSError:
        return None
    which = f"{known.st_ino:x}-{known.st_ctime_ns:x}-{sys.implementation.cache_tag}"
    return f"{program.removesuffix('.pyz')}-{which}.zip"


def source_of(imported: str) -> str:
    """The program that an archive was compiled from; any other path is a program itself."""
    beside = os.path.dirname(imported) == os.path.dirname(INSTALLED)
    return INSTALLED if beside and imported.endswith(".zip") else imported


def make(program: str = INSTALLED) -> None:
    """Compile a program; `OSError` where that is not possible. Two seconds of a CPU (measured)."""
    # Every start of the program imports this module: it shall not load these.
    import compileall
    import shutil
    import tempfile
    import zipfile
    from glob import glob
    from py_compile import PycInvalidationMode

    target = place(program)
    if target is None:
        return
    beside = os.path.dirname(program)
    for left in glob(f"{beside}/{_UNFINISHED}*"):
        shutil.rmtree(left, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=_UNFINISHED, dir=beside) as folder:
        files = os.path.join(folder, "files")
        with zipfile.ZipFile(program) as archive:
            archive.extractall(files)
        compileall.compile_dir(
            files, quiet=2, legacy=True, stripdir=files, prependdir=target,
            invalidation_mode=PycInvalidationMode.UNCHECKED_HASH,
        )  # fmt: skip
        made = shutil.make_archive(os.path.join(folder, "made"), "zip", files)
        os.chmod(made, 0o644)
        with open(made, "rb") as file:
            os.fsync(file.fileno())
        os.replace(made, target)
    former = glob(f"{program.removesuffix('.pyz')}-*.zip")
    for path in sorted(former, key=os.path.getmtime)[:-_KEPT]:
        os.unlink(path)
