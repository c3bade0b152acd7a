"""The stand-in engine as a container image, in the registry that a lab's mirror is."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from tests.lab.lab import say
from tests.lab.locks import shared_lock
from tests.lab.mounts import OWN_MOUNTS, remove_tree
from tests.lab.own_network import outside
from tests.lab.paths import BRIDGE_ADDRESS, MIRROR_PORT, LabPaths, lab_paths
from tests.lab.shell import Progress, run, timed
from tests.lab.state import lab_lock
from tests.lab.supply import oci_image
from tests.lab.supply.debian import debian_sources
from tests.lab.supply.engine import PACKAGE, STAND_IN
from tests.lab.supply.systems import NEWER

NAME = "lab/stand-in"
_LEFT_OUT = ("doc", "info", "locale", "man")
_PROGRAM = f"""\
#!/usr/bin/python3
import sys
from {PACKAGE}.cli import main
sys.exit(main())
"""


def reference(digest: str) -> str:
    """An image of the lab's registry as an inventory names it."""
    return f"{BRIDGE_ADDRESS}:{MIRROR_PORT}/{NAME}@{digest}"


def publish() -> str:
    """Publish the image and return the name that `engine.image` has; the lab is up."""
    lab = lab_paths()
    with lab_lock(lab), shared_lock(lab.root), outside():
        layers = [_system_layer(lab, say), _program_layer(lab)]
        return reference(oci_image.publish(lab.documents, NAME, layers))


def _system_layer(lab: LabPaths, progress: Progress) -> Path:
    """Debian's essential packages and its Python, made once for all labs (30 s)."""
    excluded = [f"--dpkgopt=path-exclude=/usr/share/{part}/*" for part in _LEFT_OUT]
    options = ["--variant=essential", "--include=python3", *excluded]
    asked = json.dumps([options, NEWER.suite]).encode()
    layer = lab.cache / f"engine-image-{hashlib.sha256(asked).hexdigest()[:12]}.tar"
    if layer.exists():
        return layer
    tree, fresh = layer.with_suffix(".tree"), layer.with_suffix(".new")
    remove_tree(tree)
    with timed(progress, f"mirror: {NEWER.title} as a container image"):
        words = ["mmdebstrap", "--quiet", "--mode=root", *options, NEWER.suite]
        run([*OWN_MOUNTS, *words, tree, *debian_sources(NEWER)], timeout=1800)
        oci_image.pack(tree, fresh)
    remove_tree(tree)
    return fresh.rename(layer)


def _program_layer(lab: LabPaths) -> Path:
    """The stand-in's sources, and `vllm` on PATH."""
    tree, layer = lab.own / "engine-image", lab.own / "engine-image.tar"
    remove_tree(tree)
    package = tree / f"usr/local/lib/python{NEWER.python}/dist-packages" / PACKAGE
    package.mkdir(parents=True)
    for source in STAND_IN.glob("*.py"):
        (package / source.name).write_bytes(source.read_bytes())
    program = tree / "usr/local/bin/vllm"
    program.parent.mkdir()
    program.write_text(_PROGRAM, encoding="utf-8")
    program.chmod(0o755)
    oci_image.pack(tree, layer)
    remove_tree(tree)
    return layer
