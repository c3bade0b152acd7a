"""A command as root where sudo asks for a password, which comes as the first line of stdin."""

from __future__ import annotations

# The password is read by the shell and given on by its own printf: it is in no argument list. It is
# tried once, alone; sudo neither uses nor keeps a timestamp (-k).
_ASKED = """
IFS= read -r p
[ "$(id -u)" != 0 ] || exec {command}
printf '%s\\n' "$p" | sudo -k -S -p '' true >/dev/null 2>&1 ||
  {{ echo "b200kit: sudo of $(id -un) refuses the password" >&2; exit 77; }}
{{ printf '%s\\n' "$p"; exec cat; }} | sudo -k -S -p '' {command}
"""


def asked(command: str) -> str:
    """A script for sh: *command* as root, with what follows the password as its stdin."""
    return _ASKED.format(command=command)
