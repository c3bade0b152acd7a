"""From pyinfra's callbacks to the record of the run, and from the record to the report at the end.

pyinfra has no run-finished hook, and an aborted run still must leave a report, so it is written at
exit.
"""

from __future__ import annotations

import atexit
import logging
import os
import signal
import sys
import time
from pathlib import Path
from types import FrameType
from typing import Any

import click
from gevent.pool import Pool  # type: ignore[import-untyped]
from pyinfra import logger
from pyinfra.api import output
from pyinfra.api.host import Host
from pyinfra.api.state import BaseStateCallback, State

from b200kit.node.lib.documents import unstructure
from b200kit.operations import observe
from b200kit.records import end_of_run
from b200kit.report import files
from b200kit.report.outcome import exit_code
from b200kit.report.terminal.page import lines
from b200kit.run import connection_fault, console, host_keys, kept
from b200kit.run.document import FinishedHost
from b200kit.run.places import home
from b200kit.run.remote import Remote, RemoteError
from b200kit.run.session import RUN


class Recorder(BaseStateCallback):
    """Records pyinfra's callbacks about hosts."""

    @staticmethod
    def host_connect(state: State, host: Host) -> None:
        """The node can be reached from now on."""
        node = RUN.nodes.get(host.name)
        if node and node.remote is None:
            node.remote = Remote(host, node.spec.stage_timeout_s)

    @staticmethod
    def host_connect_error(state: State, host: Host, error: Exception) -> None:
        """The node was never reached."""
        node = RUN.nodes.get(host.name)
        if node and node.remote is None:
            why = host_keys.missing(host) or connection_fault.describe(error)
            if RUN.reprovisions and connection_fault.is_the_nodes(why):
                # What other runs end at is a fault to repair here: pyinfra keeps a connected host.
                node.unreachable, host.connected = why, True
                return
            node.fail("connect", why, outcome="unreachable")

    @staticmethod
    def operation_start(state: State, op_hash: str) -> None:
        """From here on this is a run and not only a plan."""
        RUN.began = True
        console.operations(lambda: _place(op_hash, state.get_op_order()))

    @staticmethod
    def operation_host_error(
        state: State, host: Host, op_hash: str, retry_count: int = 0, max_retries: int = 0
    ) -> None:
        """An operation failed without a reason of ours; --no-wait must not turn it into success."""
        state.failed_hosts.add(host)
        node = RUN.nodes.get(host.name)
        if node and node.record.outcome is None:
            names = ", ".join(state.get_op_meta(op_hash).names) or "operation"
            node.fail(names, "failed; see the lines above")

    @staticmethod
    def host_disconnect(state: State, host: Host) -> None:
        """Give the lock back, whatever the outcome."""
        node = RUN.nodes.get(host.name)
        if node and node.remote and RUN.changes_nodes and node.record.state:
            try:
                observe.release(node, RUN.id)
            except RemoteError:
                node.say("unlock", "the lock stays until it runs out: the node does not answer")


def _place(operation: str, order: list[str]) -> tuple[int, int]:
    return order.index(operation), len(order)


def attach(state: State) -> None:
    """Record this run and report it at exit."""
    state.add_callback_handler(Recorder())
    atexit.register(_write)
    # pyinfra prints what nodes and connections say, too: errors, and all output with -vvv.
    console.guard_log(logger)
    output.set_echo(_echo)


def _echo(message: object = None, **options: Any) -> None:
    click.echo(console.shown(message) if isinstance(message, str) else message, **options)


def note_interrupts(state: State) -> None:
    """Remember a Ctrl-C, which pyinfra answers by an end with exit code 0; also while it still
    executes the inventory.
    """
    pyinfras = signal.getsignal(signal.SIGINT)

    def note(number: int, frame: FrameType | None) -> None:
        RUN.interrupted = True
        if not state.initialised:
            console.err("interrupted while the inventory was read. Nothing was changed.")
            _exit_with(1)
        # pyinfra disconnects in its pool, which is full where every node is at a long command.
        state.pool = Pool(state.pool.size)
        if callable(pyinfras):
            pyinfras(number, frame)

    signal.signal(signal.SIGINT, note)


def _write() -> None:
    if RUN.interrupted:
        for node in RUN.nodes.values():
            node.interrupt()
    # A plan that was only looked at is no run; one whose nodes were all lost before it began is.
    if not RUN.began and not any(node.record.outcome for node in RUN.nodes.values()):
        _exit_with(int(RUN.interrupted))
        return
    record: dict[str, Any] = unstructure(RUN.head())
    hosts = end_of_run.hosts(RUN.nodes, RUN.id)
    folder = home() / "reports" / RUN.id
    try:
        page, record = files.write_hosts(record, hosts, folder)
        where = os.path.relpath(page)
    except OSError as error:
        where = f"no report: {folder}: {error.strerror}"
        # What the others measured goes into the record all the same.
        others = dict(hosts)
        every = {n: others.get(n) or RUN.nodes[n].to_json() for n in sorted(RUN.nodes)}
        record["hosts"] = {
            n: one.in_short if isinstance(one, FinishedHost) else one for n, one in every.items()
        }
    _show(record, where)
    _prune(folder.parent)
    _exit_with(exit_code(record))


def _prune(reports: Path) -> None:
    """Remove reports that the inventory does not ask to keep; the run is what it was."""
    asked = kept.widest(node.spec.kept for node in RUN.nodes.values())
    going = kept.spare(kept.runs(reports), asked, time.time())
    if line := kept.remove(going, asked, "runs"):
        console.err(f"{reports.name}: {line}")


def _show(record: dict[str, Any], where: str) -> None:
    """Print the result. A reader that has left takes no node's exit code with it."""
    try:
        if os.environ.get(console.JSON):
            console.document({**record, "report": where})
            return
        shown = lines(record, width=console.width(), colour=console.coloured(), report=where)
        console.out(*shown, colour=True)
    except BrokenPipeError:
        console.abandon(sys.stdout)


def _exit_with(code: int) -> None:
    """Leave with our own exit code, the printed one, where pyinfra's may say less.

    pyinfra knows 0 and 1 (a host failed in an operation), a check also 2 (nothing unfit, something
    not measured); a dry run and an interrupted one end with pyinfra's 0, whatever was found. The
    status of a process that is already exiting cannot be changed but by `os._exit`, which runs no
    other handler: so what is buffered is written first, and a run that ends with 0 is left to
    pyinfra, whose own failure must never become a success.
    """
    if code == 0:
        return
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
