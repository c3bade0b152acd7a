"""Stand-in for containerd 1.7: `--version`, `config default` and `config dump`, CRI plugin only.

Imports replace whole sections of plugins, as mergeConfig of 1.7 does.
"""

import sys
import tomllib
from pathlib import Path
from typing import Any

OLD, NEW = "io.containerd.grpc.v1.cri", "io.containerd.cri.v1.runtime"
DEFAULTS = {
    "cdi_spec_dirs": ["/etc/cdi", "/var/run/cdi"],
    "enable_cdi": False,
    "sandbox_image": "registry.k8s.io/pause:3.8",
}


def load(path: Path) -> dict[str, Any]:
    """A file with what it imports; a section of a plugin is replaced by a later one."""
    config = tomllib.loads(path.read_text())
    plugins = config.setdefault("plugins", {})
    for name in config.get("imports", []):
        plugins |= load(path.parent / name)["plugins"]
    return config


def dump(config: dict[str, Any], imports: list[str]) -> None:
    """Print the configuration with all defaults."""
    disabled = config.get("disabled_plugins", [])
    section = NEW if config.get("version") == 3 else OLD
    print(
        f"disabled_plugins = {disabled}\nimports = {imports}\nversion = {config.get('version', 2)}"
    )
    print("\n[plugins]")
    for name, values in sorted(config.get("plugins", {}).items()):
        if name != section:
            print(f'\n  [plugins."{name}"]\n    other = "{values}"')
    if not {section, "cri"} & set(disabled):
        print(f'\n  [plugins."{section}"]')
        for key, value in sorted((DEFAULTS | config.get("plugins", {}).get(section, {})).items()):
            print(f"    {key} = {str(value).lower() if isinstance(value, bool) else quoted(value)}")


def quoted(value: Any) -> str:
    """A value as TOML has it, as far as it occurs here."""
    return str(value).replace("'", '"') if isinstance(value, list) else f'"{value}"'


match sys.argv[1:]:
    case ["--version"]:
        print("containerd github.com/containerd/containerd 1.7.24~ds1 1.7.24~ds1-6+deb13u1")
    case ["config", "default"]:
        dump({"version": 2}, [])
    case ["--config", path, "config", "dump"]:
        try:
            dump(load(Path(path)), [path])
        except (tomllib.TOMLDecodeError, OSError) as error:
            sys.exit(f"containerd: failed to load TOML: {path}: {error}")
    case _:
        sys.exit(f"this stand-in does not know {sys.argv[1:]}")
