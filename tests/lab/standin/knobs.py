"""The stand-in's own settings, from the environment.

STANDIN_START_DELAY_S   seconds before the port opens (default 1)
STANDIN_TTFT_MS         first token after this (default 20)
STANDIN_ITL_MS          each further token (default 2)
STANDIN_FIRST_EXTRA_MS  added to the first token of the STANDIN_FIRST_COUNT (default 4) first
                        requests, as compilation does (default 200)
STANDIN_FAULT           a fault for every request, or `fault@N` for the N-th chat request only
STANDIN_FAULT_GPU       the fault is of this GPU: only a process that has it in CUDA_VISIBLE_DEVICES
                        has the fault (default: any)
STANDIN_EXIT_AFTER_S    the process exits with status 1 after this (to test watchers; default never)

Faults (also by the request header x-standin-fault): error-in-stream, merged (all tokens four a
chunk), burst (all chunks at the end), stall (nothing more after half), cut-off (connection closed
after half), wrong-usage, no-usage, no-finish, no-done, no-output, abort (given up by the engine, as
finish_reason alone says), 503, 500, not-http, hang (no answer at all), refuses-ignore-eos (400 for
the key; answers end early, on their own), refuses-cache-salt; answers that are not those of its
sisters: garbled (other tokens from the sixth on), drifted (the same at other log-probabilities),
rounded (a little so), parrot (one word to everything), no-logprobs.

SIGUSR2 hangs the whole engine as a deadlock does:
/health and /metrics go on answering, no token is made any more, for requests under way neither,
until the process ends.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

_NAMES = """
error-in-stream merged burst stall cut-off wrong-usage no-usage no-finish no-done no-output
abort 503 500 not-http hang refuses-ignore-eos refuses-cache-salt garbled drifted rounded parrot
no-logprobs
"""
FAULTS = frozenset(_NAMES.split())


@dataclass(frozen=True)
class Knobs:
    """Times in seconds."""

    start_delay: float = 1.0
    ttft: float = 0.020
    itl: float = 0.002
    first_extra: float = 0.200
    first_count: int = 4
    exit_after: float | None = None
    fault: str = ""
    fault_at: int = 0

    @classmethod
    def of(cls, environ: Mapping[str, str]) -> Knobs:
        """Read them. Raises ValueError with one line that names the variable."""
        fault, _, at = environ.get("STANDIN_FAULT", "").partition("@")
        if fault and fault not in FAULTS:
            raise ValueError(f"STANDIN_FAULT: no fault {fault!r}")
        gpu, given = environ.get("STANDIN_FAULT_GPU"), environ.get("CUDA_VISIBLE_DEVICES", "")
        if gpu and gpu not in given.split(","):
            fault = ""
        leave = _number(environ, "STANDIN_EXIT_AFTER_S", 0.0)
        return cls(
            start_delay=_number(environ, "STANDIN_START_DELAY_S", 1.0),
            ttft=_number(environ, "STANDIN_TTFT_MS", 20.0) / 1000,
            itl=_number(environ, "STANDIN_ITL_MS", 2.0) / 1000,
            first_extra=_number(environ, "STANDIN_FIRST_EXTRA_MS", 200.0) / 1000,
            first_count=int(_number(environ, "STANDIN_FIRST_COUNT", 4.0)),
            exit_after=leave or None,
            fault=fault,
            fault_at=int(at) if at else 0,
        )

    def fault_of(self, number: int, header: str | None) -> str:
        """The fault of the number-th chat request (from 1): its own header goes first."""
        if header in FAULTS:
            return header
        return self.fault if self.fault_at in (0, number) else ""


def _number(environ: Mapping[str, str], name: str, default: float) -> float:
    text = environ.get(name, "")
    try:
        return float(text) if text else default
    except ValueError:
        raise ValueError(f"{name}: not a number: {text!r}") from None
