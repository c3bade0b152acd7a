"""`modprobe` of a simulated node: loads what it can, and says no as the real one does."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from . import modules

SCENARIO = Path("/etc/b200-lab/scenario.json")


def load(name: str) -> int:
    """Load one module by name; 0 when it is loaded afterwards."""
    name = name.replace("-", "_")
    if modules.is_loaded(name):
        return 0
    if name in modules.forbidden():
        said = f"Error running install command '/bin/false' for module {name}: retcode 1"
        print(f"modprobe: ERROR: {said}", file=sys.stderr)
        return 1
    scenario = json.loads(SCENARIO.read_text(encoding="utf-8"))
    if name == "nvidia" and modules.nvidia_version():
        print("modprobe: ERROR: could not insert 'nvidia': No such device", file=sys.stderr)
        return 1
    if name == modules.UVM and modules.is_loaded("nvidia"):
        modules.show(scenario, {name: modules.nvidia_version()})
        return 0
    if name not in modules.LOADABLE or name in scenario["modules"]["unavailable"]:
        print(
            f"modprobe: FATAL: Module {name} not found in directory /lib/modules", file=sys.stderr
        )
        return 1
    modules.show(scenario, dict.fromkeys((*modules.LOADABLE[name], name)))
    return 0


def main() -> int:
    """Take `modprobe [-a] [-q] [-v] NAME...`; other arguments are refused."""
    flags = {word for word in sys.argv[1:] if word.startswith("-")}
    names = [word for word in sys.argv[1:] if not word.startswith("-")]
    unknown = flags - {"-a", "--all", "-q", "--quiet", "-v", "--verbose", "-b"}
    if unknown or not names:
        print(f"modprobe: this simulation only loads modules ({sorted(unknown)})", file=sys.stderr)
        return 1
    every = bool(flags & {"-a", "--all"})
    return max(load(name) for name in (names if every else names[:1]))


if __name__ == "__main__":
    sys.exit(main())
