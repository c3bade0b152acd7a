"""Which engines, flags and variables an inventory may name, and why not. Pure.

Everything refused here would otherwise be a server that ends after minutes of loading, one that
silently ignores a setting, or one that serves unsafely.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from b200kit.engines.contract import EngineKind, Scalar
from b200kit.engines.flags import Advisory, EngineKnowledge, Version, open_advisories
from b200kit.inventory.keys.parts import Engine
from b200kit.inventory.keys.problem import Problem
from b200kit.node.serving import compile_cache

_EXACT = re.compile(r"([0-9]+(?:\.[0-9]+)+)(?:\.?(?:post|rc|dev)[0-9]+)?(?:\+[a-z0-9.]+)?")
_SECRET_NAME = re.compile(
    r"(api|admin|access|auth|secret|private)[-_]key$|(hf|api|auth|access|bearer)[-_]token$"
    r"|secret|passw",
    re.IGNORECASE,
)
# The last: a URL with a user's password, as of a proxy.
_SECRET_VALUE = re.compile(
    r"(hf_[A-Za-z0-9]{20,}|sk-[A-Za-z0-9_-]{20,}|AKIA[A-Z0-9]{16}|://[^/\s:@]*:[^/\s@]+@)"
)
_PIN = re.compile(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)", re.MULTILINE)
_PYTHON = re.compile(
    r"^#.*?(?:python:\s*|--python-version[= ]|-p |with Python )((?:[0-9]+(?:\.[0-9]+){1,2}[, ]*)+)",
    re.MULTILINE,
)
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_CACHES = "each replica has caches and files of its own"
_UNPINNED = "it would load code that no lock pins"
_GPUS = "the unit names each replica's GPUs by UUID, from `replicas` and `tensor_parallel`"
_VARIABLES = {
    "CUDA_VISIBLE_DEVICES": _GPUS,
    "NVIDIA_VISIBLE_DEVICES": _GPUS,
    "CUDA_DEVICE_ORDER": _GPUS,
    "B200KIT_PROBE": "the kit sets it for the launcher",
    "PATH": "the engine's own programs come first; nvcc is that of `cuda_toolkit`",
    "LD_PRELOAD": _UNPINNED,
    "LD_AUDIT": _UNPINNED,
    "LD_LIBRARY_PATH": _UNPINNED,
    "PYTHONPATH": _UNPINNED,
    "PYTHONHOME": _UNPINNED,
    "HF_HUB_OFFLINE": "a replica is offline",
    "TRANSFORMERS_OFFLINE": "a replica is offline",
    "TMPDIR": _CACHES,
    **{
        name: _CACHES
        for name, value in compile_cache.environment("/").items()
        if value.startswith("/")
    },
}
"""Variables that would undo what the kit pins for any engine, or be overridden, each with why."""
# A unit's own directory is not the site's. vLLM's own templates have no directory at all.
_RELATIVE = re.compile(
    r"(?!/|template_[a-z0-9_]+\.jinja$)[^{}\s:]+\.(jinja2?|py|json|ya?ml|txt)|(~|\.\.?)/\S*"
)
_COMMIT = re.compile(r"[0-9a-f]{40}")
_OFF = ("", "0", "false", "False")


def problems(
    kind: EngineKind, engine: Engine, known: EngineKnowledge, model_flags: Mapping[str, Scalar]
) -> Iterator[Problem]:
    """Why this engine cannot be served with; *model_flags* are those of the catalogue."""
    yield from _secrets(engine)
    yield from _owned(kind, engine)
    yield from _refused(kind, engine)
    yield from _remote_code({**model_flags, **dict(engine.flags)})
    # The fake engine has a version of its own and rejects unknown flags itself.
    if engine.kind != "stand-in":
        yield from _versioned(kind, engine, known, model_flags)


def unlike_lock(kind: EngineKind, engine: Engine, lock: str) -> str:
    """What a requirements file installs instead of the engine's version; empty when it fits."""
    pins = dict(_PIN.findall(lock))
    there = {name: pins[name] for name in kind.distributions if name in pins}
    same = {version.partition("+")[0] for version in there.values()}
    if engine.kind == "stand-in" or engine.version.partition("+")[0] in same:
        return ""
    has = ", ".join(f"{name}=={version}" for name, version in there.items())
    return f"{engine.version}, but {engine.requirements} has {has or f'no {kind.name}'}"


def python_of(lock: str) -> list[tuple[int, int]]:
    """The versions of Python that a requirements file is for, by its comments; [] for none.

    `# python: 3.11 3.12`, or what uv and pip-compile write of themselves.
    """
    named = _PYTHON.findall(lock)
    return [(int(a), int(b)) for line in named for a, b in re.findall(r"([0-9]+)\.([0-9]+)", line)]


def _versioned(
    kind: EngineKind, engine: Engine, known: EngineKnowledge, model_flags: Mapping[str, Scalar]
) -> Iterator[Problem]:
    exact = _EXACT.fullmatch(engine.version)
    if not exact:
        message = f'"{engine.version}" is not exact; write it as "0.33.0"'
        yield Problem("engine.version", message)
        return
    weak = list(open_advisories(exact[1], known.advisories))
    if weak:
        yield Problem("engine.version", _unsafe(engine.version, weak))
        return
    version = known.versions.get(exact[1])
    if version is None:
        yield Problem("engine.version", _unlisted(kind, exact[1], known))
        return
    yield from _wrong(kind, engine, version)
    for name, value in sorted(model_flags.items()):
        if name not in dict(engine.flags) and (message := version.wrong_flag(name, value)):
            yield Problem("model", f"its flag {name} {message}")


def _unsafe(version: str, weak: list[Advisory]) -> str:
    first = weak[-1]
    more = f" and {len(weak) - 1} more" if len(weak) > 1 else ""
    return f"{version} is unsafe: {first.id} ({first.what}){more}; {first.fixed} or newer"


def _unlisted(kind: EngineKind, version: str, known: EngineKnowledge) -> str:
    have = ", ".join(known.versions) or "none"
    return (
        f"no list of the flags of {kind.name} {version} (there are: {have}), so nothing could be "
        "checked: make one with b200kit/catalog/engines/snapshot.py"
    )


def _wrong(kind: EngineKind, engine: Engine, version: Version) -> Iterator[Problem]:
    for name, value in engine.flags:
        # A secret in the wrong place is reported elsewhere, without its value. Of what a plugin
        # brings, as tool-parser-plugin a tool-call-parser, it alone knows the names.
        secret = _SECRET_VALUE.search(str(value))
        brought = f"{name.replace('-call', '')}-plugin" in dict(engine.flags)
        message = "" if secret or brought else version.wrong_flag(name, value)
        if not (message or secret) and _RELATIVE.fullmatch(str(value)):
            message = f"must be a whole path on the node, from / on, not {value!r}"
        if message and name not in kind.owned:
            yield Problem(f"engine.flags.{name}", message)
    for name, _ in engine.environment:
        if name not in kind.refused and (message := version.wrong_variable(name, kind.variables)):
            yield Problem(f"engine.environment.{name}", message)


def _secrets(engine: Engine) -> Iterator[Problem]:
    """Every user of a node can read argument lists and what units have in their Environment."""
    for table, pairs in (("flags", engine.flags), ("environment", engine.environment)):
        for name, value in pairs:
            if _SECRET_NAME.search(name) or _SECRET_VALUE.search(str(value)):
                message = "looks like a secret, and everybody could read it there: see `api_key`"
                yield Problem(f"engine.{table}.{name}", message)


def _owned(kind: EngineKind, engine: Engine) -> Iterator[Problem]:
    for name, _ in engine.flags:
        if name in kind.owned and not _SECRET_NAME.search(name):
            message = f"the kit sets it; the inventory says {kind.owned[name]}"
            yield Problem(f"engine.flags.{name}", message)


def _refused(kind: EngineKind, engine: Engine) -> Iterator[Problem]:
    for name, value in engine.environment:
        if not _VARIABLE.fullmatch(name):
            message = "is no name of a variable: letters, digits and _, and no digit first"
            yield Problem(f"engine.environment.{name}", message)
        why = _VARIABLES.get(name) or (kind.refused.get(name) if value not in _OFF else None)
        if why:
            yield Problem(f"engine.environment.{name}", f"refused: {why}")
    for name, flag in engine.flags:
        reason = kind.refused.get(name) or kind.refused.get(f"{name}={flag}")
        if reason and flag is not False:
            yield Problem(f"engine.flags.{name}", f"refused: {reason}")


def _remote_code(flags: Mapping[str, Scalar]) -> Iterator[Problem]:
    named = {name.replace("_", "-"): value for name, value in flags.items()}
    pinned = any(
        _COMMIT.fullmatch(str(named.get(name, ""))) for name in ("code-revision", "revision")
    )
    if named.get("trust-remote-code") and not pinned:
        message = (
            "runs Python that comes with the model; pin it: code-revision, a commit's 40 digits"
        )
        yield Problem("engine.flags.trust-remote-code", message)
