"""The inventory keys of a node's proof: how long evidence of each kind holds. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field

from b200kit.inventory.keys.problem import Problem
from b200kit.inventory.keys.types import Keys, Port, matching
from b200kit.node.lib import hours

SHARE_PORT = 7999

_Hours = Annotated[str, matching(hours.PATTERN, 'hours of the day in UTC such as "01:00-05:00"')]


class Renew(Keys):
    """How the node itself measures latency and answers again, while nobody asks it anything."""

    by_node: Literal["on", "off"] = "on"
    """off: they are measured again by b200.py, once they are expiring, or by smoke.py"""
    window: _Hours = "01:00-05:00"
    """hours of the day, UTC, in which it may; nodes spread over their first half. An end before the
    begin is of the next day"""
    idle_s: float = Field(60.0, ge=1, le=86_400)
    """seconds for which no request must have been under way before it begins"""
    when_left: float = Field(0.5, ge=0.01, le=1)
    """share of its time to live below which evidence is due"""


class Proof(Keys):
    """How long what a node has proven holds; what runs out is proven no more."""

    issue: Literal["on", "off"] = "on"
    """on: a signed proof follows each health check, and check.py asks for a valid one"""
    health_ttl_s: float | None = Field(None, ge=5, le=86_400)
    """seconds that a health check without a fault holds; when None so long that two which hang may
    follow: twice watchdog.health_check_s and watchdog.health_check_deadline_s"""
    gate_ttl_h: float = Field(2160.0, ge=1, le=87_600)
    """hours that the gate's verdict of this boot holds; health checks judge the same all the time,
    but what only a boot shows is as old as the boot"""
    latency_ttl_h: float = Field(168.0, ge=1, le=87_600)
    """hours that a smoke test holds"""
    answers_ttl_h: float = Field(168.0, ge=1, le=87_600)
    """hours that its golden answers hold, where smoke.golden_tokens asks for some"""
    bandwidth_ttl_h: float = Field(720.0, ge=1, le=87_600)
    """hours that measured bandwidth holds, where bandwidth is "required"; b200.py alone renews it
    """
    expiring_share: float = Field(0.2, ge=0, le=0.9)
    """the last part of these times, in which a proof is expiring and b200.py measures again"""
    clock_step_s: float = Field(5.0, ge=1, le=3600)
    """a step of the time of day by more seconds ends the proof: others believe what it says of
    when it ends"""
    clock_settle_s: float = Field(600.0, ge=1, le=86_400)
    """seconds after which a time of day that was stepped is believed"""
    renew: Renew = Renew()
    """how the node renews latency and answers by itself"""
    share_port: Port | None = SHARE_PORT
    """port, on gateway_bind, where HAProxy's agent check learns what share of a whole node's load
    this node may have; None: nobody can ask, and an expired proof has no consequence"""
    expired_share: int = Field(50, ge=0, le=100)
    """percentage of its load that a node keeps from the moment its proof has expired"""
    out_after_s: float = Field(600.0, ge=0, le=2_592_000)
    """seconds after which it gets nothing, while the fleet's floor holds without it"""

    @property
    def asked_at(self) -> int | None:
        """The port where this node says its share; None where it says none."""
        return self.share_port if self.issue == "on" else None

    def health_holds_s(self, longest_s: float) -> float:
        """Seconds that one holds. *longest_s*: from one until one that hangs is ended."""
        return 2 * longest_s if self.health_ttl_s is None else self.health_ttl_s


def problems(proof: Proof, longest_s: float) -> Iterator[Problem]:
    """A health check that holds no longer than until the next has ended: nothing stays proven.

    *longest_s*: seconds from one health check until the next is ended that hangs.
    """
    holds_s = proof.health_holds_s(longest_s)
    if proof.issue == "on" and holds_s < longest_s:
        message = (
            f"{holds_s:g} s, but a check that hangs takes {longest_s:g} s with "
            "watchdog.health_check_s and health_check_deadline_s: the proof would run out meanwhile"
        )
        yield Problem("proof.health_ttl_s", message)
    yield from _of_window(proof.renew)


def _of_window(renew: Renew) -> Iterator[Problem]:
    """Hours in which nothing could ever be measured."""
    try:
        length_s = hours.parsed(renew.window).length_s
    except ValueError as error:
        yield Problem("proof.renew.window", str(error))
        return
    if length_s <= renew.idle_s:
        message = f"{length_s} s, and the node must be idle for {renew.idle_s:g} s of them first"
        yield Problem("proof.renew.window", message)
