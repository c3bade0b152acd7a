"""A signature of a node under its proof or acceptance run, held to its pinned host key.

`ssh-keygen -Y` verifies, by a file of allowed signers, a line of which is
`node namespaces="b200kit-proof" type base64` (ssh-keygen(1), ALLOWED SIGNERS). With that
file anybody can do the same without b200kit.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path

from b200kit.node.lib import documents
from b200kit.node.lib.signature import NAMESPACE
from b200kit.run import known_hosts

_TYPE = "ssh-ed25519"
_TIMEOUT_S = 30
# A host name: no pattern, path or list of allowed signers, and nothing that is not seen.
_NODE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,252}")
# Good "b200kit-proof" signature for n01 with ED25519 key SHA256:... (sig_verify of ssh-keygen.c)
_FINGERPRINT = re.compile(rb" key (SHA256:[A-Za-z0-9+/]{43})\s*$")


def signers(node: str, keys: Iterable[str], namespace: str = NAMESPACE) -> str:
    """The lines of allowed signers for a node: of its pinned keys that of the type it signs with.

    Raises ValueError where none is pinned, or the name could be taken for more than one node.
    """
    if not _NODE.fullmatch(node):
        raise ValueError(f"{node!r} is no name of a node")
    lines = [f'{node} namespaces="{namespace}" {key}' for key in keys if key.startswith(_TYPE)]
    if not lines:
        raise ValueError(f"no {_TYPE} host key of {node} is pinned")
    return "".join(f"{line}\n" for line in lines)


def pinned(file: Path, node: str, name: str | None = None, namespace: str = NAMESPACE) -> str:
    """The allowed signers of a node by a known_hosts file, in which it is called *name*.

    Raises OSError and ValueError.
    """
    try:
        text = documents.content(file).decode("utf-8", "replace")
        keys = known_hosts.pinned(text, [name or node])
        return signers(node, keys, namespace)
    except OSError as error:
        raise OSError(f"{file}: {error.strerror}; --known-hosts names the pinned keys") from None
    except ValueError as error:
        raise ValueError(f"{file}: {error}; --known-hosts names another file") from None


def signer(
    content: bytes, signature: bytes, node: str, allowed: str, namespace: str = NAMESPACE
) -> str:
    """Fingerprint of the key with which *node* signed *content*; "" where it did not.

    Raises OSError where ssh-keygen cannot be asked.
    """
    with tempfile.TemporaryDirectory() as folder:
        signers_file, signature_file = Path(folder, "signers"), Path(folder, "signature")
        signers_file.write_text(allowed, encoding="utf-8")
        signature_file.write_bytes(signature)
        argv = ["ssh-keygen", "-Y", "verify", "-f", str(signers_file), "-I", node]
        argv += ["-n", namespace, "-s", str(signature_file)]
        try:
            done = subprocess.run(
                argv, input=content, capture_output=True, timeout=_TIMEOUT_S, check=False
            )
        except subprocess.TimeoutExpired as error:
            raise OSError(f"ssh-keygen took more than {_TIMEOUT_S} s") from error
    found = _FINGERPRINT.search(done.stdout)
    return found[1].decode() if found and done.returncode == 0 else ""
