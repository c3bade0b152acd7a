"""The engine on a node: hash-locked wheels in a directory of their own, or an image by its digest.

What it lies under is named by the digest of the requirements or of the image, so another engine
lies elsewhere, and going back to an earlier one finds it still there.
"""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Sequence
from pathlib import Path

from b200kit.engines.contract import is_one_process
from b200kit.inventory.keys.parts import Engine
from b200kit.node.lib.readings import is_digits
from b200kit.node.placement.layout import Replica
from b200kit.node.state.drift import File
from b200kit.node.weights.manifest import STAMP
from b200kit.run.node import Node
from b200kit.run.remote import RemoteError
from b200kit.serving import compile_tools

REQUIREMENTS = "/etc/b200kit/engine-requirements.txt"
# pip compiles in one process, and with vLLM that takes longer than all the rest. At the lowest
# priority, because replicas of the version before may be serving beside it. Many packages have
# files that are no Python for this version; as pip does, they are passed over.
_COMPILE = "nice -n 19 {python} -I -m compileall -q -j 8 {venv}/lib > /dev/null 2>&1"
# Less than the largest wheel of any engine needs while it is unpacked.
_ROOM_MB = 512
_LABELS = {"vllm": "vllm", "sglang": "SGLang", "trtllm": "TensorRT-LLM"}


def requirements(node: Node) -> bytes:
    """The hash-locked requirements, from the controller."""
    return Path(node.spec.engine.requirements).read_bytes()


def files(node: Node) -> list[File]:
    """What pip reads on the node; an image needs nothing."""
    return [] if node.spec.engine.image else [File(REQUIREMENTS, requirements(node))]


def engine_id(node: Node) -> str:
    """Names the engine: a digest of its hash-locked requirements, or of the image's name."""
    image = node.spec.engine.image
    return hashlib.sha256(image.encode() if image else requirements(node)).hexdigest()[:12]


def engine_dir(node: Node) -> str:
    """Where the engine's virtual environment lies on the node."""
    return f"/opt/vllm/{engine_id(node)}"


def stamp(node: Node) -> str:
    """The file that says the engine is there as a whole."""
    if node.spec.engine.image:
        return f"/var/lib/b200kit/images/{engine_id(node)}"
    return f"{engine_dir(node)}/{STAMP}"


def described(engine: Engine, layout: Sequence[Replica] = ()) -> str:
    """As reports name it; what stands in for vLLM, or for GPUs, must not read like it."""
    if engine.kind == "stand-in":
        return f"stand-in {engine.version}, not vLLM"
    alone = [len(replica.gpus) for replica in layout if is_one_process(engine.kind, replica)]
    few = f", 1 process for {alone[0]} GPUs" if alone else ""
    form = ", container" if engine.image else ""
    return f"{_LABELS[engine.name]} {engine.version} ({engine.kind}{form}{few})"


def install(node: Node) -> str | None:
    """Bring the engine, in the form that is asked for; returns what it does without."""
    if node.spec.engine.image:
        _pull(node)
        return None
    _install(node)
    lacks = compile_tools.lacks_flashinfer(node.spec, requirements(node))
    return compile_tools.note() if lacks else None


def _pull(node: Node) -> None:
    """The image by its digest, so that podman itself proves what came."""
    image, done = shlex.quote(node.spec.engine.image or ""), shlex.quote(stamp(node))
    script = f"podman pull --quiet {image} && mkdir -p {_parent(done)} && echo {image} > {done}"
    try:
        node.connected().run_logged(script, "/var/log/b200kit-engine.log")
    except RemoteError as error:
        raise RemoteError(f"podman cannot pull the engine's image: {error}") from None


def _parent(path: str) -> str:
    return path.rpartition("/")[0]


def _install(node: Node) -> None:
    into(node, engine_dir(node), REQUIREMENTS, "/var/log/b200kit-engine.log")


def into(node: Node, directory: str, listed: str, log: str, check: str = "true") -> None:
    """A fresh environment every time, stamped last: half an environment is never taken for one.

    *listed* are the requirements on the node; *check* is a command that must succeed before it is
    stamped.
    """
    venv = shlex.quote(directory)
    python = f"{venv}/bin/python"
    pip = (
        f"{python} -I -m pip install --no-deps --require-hashes --only-binary :all: "
        f"--no-cache-dir --no-compile --disable-pip-version-check --timeout 20 --retries 2 "
        f"{_index(node)} -r {listed}"
    )
    # Beside the engine: all wheels lie there until the last is installed, and /tmp may be a tmpfs.
    wheels = f"{venv}/wheels"
    unpack = f"mkdir {wheels} && TMPDIR={wheels} {pip} && rm -r {wheels}"
    compiled = f"{{ {_COMPILE.format(python=python, venv=venv)}; true; }}"
    make = f"rm -rf {venv} && python3 -m venv {venv} && {unpack} && {compiled} && {check}"
    fresh = f"{make} && echo done > {venv}/{STAMP}"
    # A run that was killed may have finished it in the meantime.
    script = f"test -e {venv}/{STAMP} || ({fresh})"
    try:
        node.connected().run_logged(script, log)
    except RemoteError as error:
        raise RemoteError(_disk(node, venv) or str(error)) from None


def _disk(node: Node, path: str) -> str:
    """Says that the disk is full when it is: what fails for want of room seldom says so itself."""
    parent = _parent(path)
    free = node.connected().attempt(f"df --output=avail -BM {parent} | tail -n 1").stdout.strip()
    full = is_digits(free.rstrip("M")) and int(free.rstrip("M")) < _ROOM_MB
    return f"no disk space: {free} left under {parent}" if full else ""


def _index(node: Node) -> str:
    """Where pip looks: the wheelhouse alone; without one the index that the node's pip is set to.

    Plain HTTP is allowed because every wheel is checked against its hash.
    """
    url = node.spec.engine.wheelhouse
    if not url:
        return ""
    host = url.split("/")[2] if url.startswith("http://") else ""
    trusted = f" --trusted-host {shlex.quote(host)}" if host else ""
    return f"--no-index --find-links {shlex.quote(url)}{trusted}"
