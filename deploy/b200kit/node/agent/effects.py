"""What the agent does to a node: systemd, the gateway, evidence of a hang, the mark, locks."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

from b200kit.node.facts import system
from b200kit.node.facts.processes import members
from b200kit.node.lib import documents, durable_files, journal, lock, program, timestamp
from b200kit.node.lib.readings import reason
from b200kit.node.serving.gateway import drain, haproxy
from b200kit.node.serving.gateway.rolling_restart import LOCK
from b200kit.node.state.serving import ServedReplica
from b200kit.node.state.verdict import Action
from b200kit.node.state.watchdog import DIRECTORY, MARK, ReplicaUnit, WatchdogMark

WHO = "b200-agent"
_EVIDENCE_S = 30.0
# A unit of its own: what hangs a replica may hang whoever looks at it, and to see the kernel stacks
# of another user's threads takes rights that the watchdog does without.
_APART = (
    "systemd-run",
    "--quiet",
    "--wait",
    "--collect",
    "--property=NoNewPrivileges=yes",
    "--property=CapabilityBoundingSet=CAP_SYS_PTRACE CAP_SYS_ADMIN CAP_DAC_READ_SEARCH",
    "--property=ProtectSystem=strict",
    "--property=ReadWritePaths=/var/lib/b200kit",
    "--property=ProtectHome=yes",
    "--property=UMask=0077",
)
_STOP_S = 300.0
_RESET_S = 600.0
"""What a stop of all replicas may take, and the daemons with the reset in between."""
_ABORTED_S = 15.0
_EVERY_S = 0.1


class EffectFailed(Exception):
    """The node could not be asked; the text is one line."""


@dataclass(frozen=True)
class Edges:
    """The real node. `directory` is where evidence of hangs lies."""

    directory: Path = Path(DIRECTORY)
    mark_path: Path = Path(MARK)
    lock: Path = LOCK
    drained: Path = drain.NOTE

    async def unit(self, unit: str) -> ReplicaUnit:
        """Its state. Raises EffectFailed."""
        reading = await self._reading(unit)
        active, invocation, result = (
            str(reading.get(key)) for key in ("active", "invocation_id", "result")
        )
        status = reading.get("exit_status")
        return ReplicaUnit(active, invocation, result, status if isinstance(status, int) else 0)

    async def _reading(self, unit: str) -> dict[str, object]:
        reading = (await asyncio.to_thread(system.units, [unit]))[unit]
        if why := reason(reading):
            raise EffectFailed(f"{unit}: {why}")
        return dict(reading)

    async def take_out_of_rotation(self, server: str) -> str | None:
        """Out of the gateway's rotation; why not, where the gateway cannot be reached.

        "drain", as the units themselves end a "maint" when a replica is warm (rotation.py), which
        is before its correctness check.
        """
        return await asyncio.to_thread(_told, server, "drain")

    async def put_back(self, server: str) -> str | None:
        """Into the gateway's rotation; why not, where the gateway cannot be reached."""
        return await asyncio.to_thread(_told, server, "ready")

    async def collect(self, replica: ServedReplica) -> str:
        """Look at a hung replica from outside; the folder with what was seen."""
        reading = await self._reading(replica.unit)
        when = datetime.now(timezone.utc).strftime("%Y%m%dT%H%M%SZ")
        into = self.directory / f"{when}-vllm{replica.index}"
        requested = {
            "unit": replica.unit,
            "invocation": str(reading.get("invocation_id")),
            "group": str(reading.get("control_group")),
            "url": replica.url,
            "into": str(into),
        }
        words = [word for name, value in requested.items() for word in (f"--{name}", value)]
        argv = program.argv("_evidence", *words)
        problem = await _run([*_APART, f"--property=RuntimeMaxSec={_EVIDENCE_S:g}", *argv], 60.0)
        if problem and not into.is_dir():
            raise EffectFailed(problem)
        return str(into)

    async def abort(self, replica: ServedReplica, evidence: str) -> None:
        """Let the hung processes print their Python stacks and die; keep what they print.

        A process that waits in the kernel may not hear the signal; the restart ends it, or fails.
        """
        reading = await self._reading(replica.unit)
        group, invocation = str(reading.get("control_group")), str(reading.get("invocation_id"))
        await _run(["systemctl", "kill", "--signal=SIGABRT", replica.unit], 10.0)
        for _ in range(round(_ABORTED_S / _EVERY_S)):
            if not await asyncio.to_thread(members, group):
                break
            await asyncio.sleep(_EVERY_S)
        with contextlib.suppress(OSError):
            lines = await asyncio.to_thread(journal.lines, invocation, 2000)
            path = Path(evidence) / "after-abort.txt"
            await asyncio.to_thread(path.write_text, "\n".join(lines) + "\n")

    async def restart(self, unit: str, within_s: float) -> str | None:
        """Restart a unit and wait until it is active, which means warm; why it is not."""
        # One that was restarted too often must not be refused for that: we count ourselves.
        await _run(["systemctl", "reset-failed", unit], 20.0)
        return await _run(["systemctl", "restart", unit], within_s)

    async def renew_manager(self, units: Sequence[str], act: str) -> str | None:
        """Stop all replicas, restart the fabric manager with a reset of all GPUs, start them again.

        They start whatever came of it: their own start finds out what does not work. *act* names it
        once for a boot. Returns why it failed.
        """
        problem = await _run(["systemctl", "stop", *units], _STOP_S)
        if not problem:
            words = ("reset", "--act", act, "--deadline", f"{_RESET_S:g}")
            # As root with all rights, which the watchdog does without; it goes on without it, too.
            asked = ["systemd-run", "--quiet", "--wait", "--collect", "--property=KillMode=mixed"]
            problem = await _run([*asked, *program.argv("gpu-daemons", *words)], _RESET_S + 60)
        started = await _run(["systemctl", "start", "--no-block", *units], 20.0)
        return problem or started

    def is_drained(self) -> bool:
        """Whether somebody drains the node. Raises OSError when that is unknown."""
        return is_there(self.drained)

    def is_marked(self) -> bool:
        """Whether the node is marked."""
        return is_there(self.mark_path)

    def mark(self, why: str, evidence: str) -> None:
        """Mark the node: what restarts do not repair needs a GPU reset and a person. May raise."""
        mark(why, evidence, self.mark_path)

    @contextlib.contextmanager
    def no_rolling_restart(self) -> Iterator[bool]:
        """True while no rolling restart is at work, and none begins in the block."""
        try:
            handle = lock.opened(self.lock)
        except OSError:
            # No lock is no reason to leave clients with a replica that hangs.
            yield True
            return
        try:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            yield False
        else:
            yield True
        finally:
            os.close(handle)


def is_there(path: Path) -> bool:
    """Whether there is a note. Raises OSError when that is unknown."""
    try:
        path.lstat()
    except FileNotFoundError:
        return False
    return True


def mark(why: str, evidence: str, path: Path) -> None:
    """Mark the node as one that needs manual repair, unless it is marked. Raises OSError.

    The first mark stands until a person removes the file; check.py shows it until then.
    """
    if not is_there(path):
        content = WatchdogMark(WHO, timestamp.now(), why, evidence, Action.RESET_GPU)
        durable_files.replace(path, documents.to_bytes(content))


def _told(server: str, state: str) -> str | None:
    try:
        haproxy.set_state(server, state)
    except haproxy.HAProxyError as error:
        return str(error)
    return None


async def _run(argv: Sequence[str], within_s: float) -> str | None:
    """Run a program; why it failed, or None. One that takes too long is left behind, killed."""
    process = await asyncio.create_subprocess_exec(
        *argv,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        _, output = await asyncio.wait_for(process.communicate(), within_s)
    except asyncio.TimeoutError:
        with contextlib.suppress(ProcessLookupError, asyncio.TimeoutError):
            process.kill()
            # One that waits in the kernel does not even die; nobody waits for it.
            await asyncio.wait_for(process.wait(), 1.0)
        return f"{argv[0]} took more than {within_s:g} s"
    lines = output.decode("utf-8", "replace").strip().splitlines()
    return (
        f"{argv[0]} exited {process.returncode}: {' '.join(lines[-1:])}"
        if process.returncode
        else None
    )
