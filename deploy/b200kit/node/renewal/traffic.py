"""Whether others use the node: for how long nobody did, and who began while it measured. Pure.

Users come through the gateway alone, as replicas listen on loopback. The engines' counters show
besides what the gateway does not count: streams of its process before a reload, and a person's load
on a replica. The watchdog's probes are in them, too, each for an instant.
"""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class GatewayTraffic:
    """One reading. *given*: requests that the gateway passed on so far; *open*: those under way.

    *in_flight*: requests that the engines have, by their own counters.
    """

    given: int
    open: int
    in_flight: float = 0.0


@dataclass(frozen=True)
class Quiet:
    """*since_s*: the moment from which on nothing was seen; None while something is.

    *why*: what it was that ended it last.
    """

    since_s: float | None = None
    last: GatewayTraffic | None = None
    why: str = ""

    def after(self, now_s: float, seen: GatewayTraffic | str) -> Quiet:
        """The same one reading later. A text is why there is none: then nothing is known."""
        if isinstance(seen, str):
            return Quiet(why=seen)
        if why := _activity(self.last, seen):
            return Quiet(None, seen, why)
        return replace(self, since_s=now_s if self.since_s is None else self.since_s, last=seen)

    def for_s(self, now_s: float) -> float:
        """Seconds for which nothing has been seen."""
        return 0.0 if self.since_s is None else now_s - self.since_s


def _activity(last: GatewayTraffic | None, seen: GatewayTraffic) -> str:
    """What a reading shows of others; empty where it shows nobody."""
    if seen.open:
        return f"{seen.open} requests are under way at the gateway"
    if last is not None and seen.given != last.given:
        return "requests came through the gateway"
    # One alone is a probe of the watchdog.
    if seen.in_flight and last is not None and last.in_flight:
        return f"the engines have {seen.in_flight:.0f} requests"
    return ""


def foreign(begun: GatewayTraffic, now: GatewayTraffic, sent: int) -> str:
    """Why a measurement yields; empty where the gateway has seen its own requests alone.

    *begun*: the reading before it, when nobody asked; *sent*: requests that it has begun to send
    through the gateway, which may be on their way there.
    """
    if now.given < begun.given:
        return "the gateway was restarted or reloaded: its counters began again"
    others = now.given - begun.given - sent
    return f"{others} requests of others came" if others > 0 else ""
