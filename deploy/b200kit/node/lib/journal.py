"""The journal of one invocation of a unit: what a replica has logged since it was started."""

from __future__ import annotations

from b200kit.node.lib.readings import command


def lines(invocation: str, last: int | None = None) -> list[str]:
    """What a unit's invocation logged, all of it or the last lines.

    Raises OSError when it cannot be read. Nothing at all counts as that: a unit that runs has
    logged at least that it was started.
    """
    if not invocation:
        raise OSError("the invocation of the unit is not known")
    # What was written to a pipe a moment ago may not be in the journal yet.
    command(["journalctl", "--sync"])
    limit = [] if last is None else ["-n", str(last)]
    match = [f"_SYSTEMD_INVOCATION_ID={invocation}", "+", f"INVOCATION_ID={invocation}"]
    output = command(["journalctl", "--quiet", "--no-pager", "-o", "cat", *limit, *match])
    if not output.strip():
        raise OSError(f"the journal has nothing of invocation {invocation}")
    return output.splitlines()
