"""Steps: the memory that an engine shares, locks and runs what it compiled in."""

from __future__ import annotations

import ctypes
import mmap
import os
import resource
import tempfile
from pathlib import Path

from b200kit.node.serving.engine_probe.asked import ProbeFault, ProbeNotApplicable, ProbeRequest

SHARED = Path("/dev/shm")  # noqa: S108 - the place itself is asked about
_MIB = 1 << 20
# vLLM's message queue has ten chunks of 16 MiB and one a rank for answers (distributed/
# device_communicators/shm_broadcast.py, 0.33.0); NCCL takes about 10 MiB a connection where there
# is no P2P. Inferred: room for both, and as much again.
_ALONE_MIB, _SHARED_MIB, _RANK_MIB = 16, 320, 64
_LOCKED = 64 * _MIB


def shared_memory(asked: ProbeRequest) -> str:
    """Shared memory can be mapped in the size that the ranks share."""
    ranks = asked.ranks if asked.ranks > 1 else 0
    needed = (_SHARED_MIB + ranks * _RANK_MIB if ranks else _ALONE_MIB) * _MIB
    remedy = asked.unit(
        f"TemporaryFileSystem= of the unit or ShmSize= of the container leaves less than "
        f"{needed // _MIB} MiB; of the node's own: mount -o remount,size=50% {SHARED}"
    )
    try:
        found = os.statvfs(SHARED)
        free = found.f_bavail * found.f_frsize
        # A tmpfs of no blocks has no limit.
        if found.f_blocks and free < needed:
            raise ProbeFault(f"{SHARED} has {free // _MIB} MiB free of {needed // _MIB}", remedy)
        _map(needed)
    except OSError as error:
        raise ProbeFault(f"{SHARED} cannot be mapped: {error}", remedy) from None
    return f"{needed // _MIB} MiB of {SHARED} mapped"


def _map(size: int) -> None:
    """A file without a name, mapped and written at both ends. Raises OSError."""
    with tempfile.TemporaryFile(dir=SHARED) as file:
        file.truncate(size)
        # Reserved before it is written: a page that is not there would end this process.
        os.posix_fallocate(file.fileno(), 0, mmap.PAGESIZE)
        os.posix_fallocate(file.fileno(), size - mmap.PAGESIZE, mmap.PAGESIZE)
        with mmap.mmap(file.fileno(), size) as memory:
            memory[0] = memory[size - 1] = 1


def locked_memory(asked: ProbeRequest) -> str:
    """Memory can be locked without a limit, which network adapters need of buffers."""
    if not asked.on_gpus:
        raise ProbeNotApplicable("an engine on CPUs locks no memory")
    limit, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    remedy = asked.unit("LimitMEMLOCK= must be infinity")
    if limit != resource.RLIM_INFINITY:
        raise ProbeFault(f"at most {limit} bytes can be locked", remedy)
    libc = ctypes.CDLL(None, use_errno=True)
    with mmap.mmap(-1, _LOCKED) as memory:
        place = ctypes.c_char.from_buffer(memory)
        failed = libc.mlock(ctypes.byref(place), ctypes.c_size_t(_LOCKED))
        number = ctypes.get_errno()
        del place
    if failed:
        raise ProbeFault(f"{_LOCKED // _MIB} MiB cannot be locked: {os.strerror(number)}", remedy)
    return f"{_LOCKED // _MIB} MiB locked, no limit"


def executable_memory(asked: ProbeRequest) -> str:
    """Memory can be written and run, as kernels that are compiled at run time need it."""
    protection = mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC
    try:
        mmap.mmap(-1, mmap.PAGESIZE, prot=protection).close()
    except OSError as error:
        remedy = asked.unit("MemoryDenyWriteExecute= must not be set")
        raise ProbeFault(f"no memory can be written and run: {error}", remedy) from None
    return "memory can be written and run"


def cache(asked: ProbeRequest) -> str:
    """The caches can be written, and what lies there can be run; the temporary files, too."""
    home, temporary = (Path(asked.environment.get(name, "/")) for name in ("HOME", "TMPDIR"))
    for path, line in ((home, "CacheDirectory="), (temporary, "RuntimeDirectory=")):
        try:
            # The first start makes the home, as the engine would.
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=path) as file:
                file.write(b"\0" * mmap.PAGESIZE)
                file.flush()
                if path == home:
                    _run(file.fileno())
        except PermissionError as error:
            why = "its file system is mounted noexec, or it belongs to somebody else"
            raise ProbeFault(f"{path}: {error.strerror}", f"{why} (ls -ld, findmnt -T)") from None
        except OSError as error:
            remedy = asked.unit(f"{line} and ReadWritePaths= must let it write there")
            raise ProbeFault(f"{path}: {error.strerror}", remedy) from None
    return f"{home} can be written and run"


def _run(descriptor: int) -> None:
    """Map it as code. PermissionError where its file system is mounted noexec."""
    protection = mmap.PROT_READ | mmap.PROT_EXEC
    mmap.mmap(descriptor, mmap.PAGESIZE, flags=mmap.MAP_PRIVATE, prot=protection).close()
