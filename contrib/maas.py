#!/usr/bin/env python3
"""A new image by MAAS: release, then deploy, over its HTTP API 2.0 with an API key.

    reimage = {"command": ["b200-maas", "https://maas.example.internal/MAAS", "4y3h7n"],
               "token": {"env": "MAAS_KEY"}, "image": "noble"}

    b200-maas URL SYSTEM reimage NODE

SYSTEM is the machine's id in MAAS; the API key is in B200_TOKEN, the distribution in B200_IMAGE
(MAAS' default where it is empty). The machine is marked with B200_ACT before it is deployed, so
that one that is asked again with the same B200_ACT is not deployed twice. What MAAS has it as is
said on standard error; the last line on standard output has the new host keys. Exit status 0:
done; 1: MAAS says that it failed; 2: MAAS cannot be asked for it: look at the address, the key, or
the machine's state. While MAAS does not answer, it is asked again.

MAAS has no field for host keys. What an installation printed is saved, though, and came to MAAS
over the machine's own credentials: lines there that hold "b200kit-host-key:" and a public key are
its answer. So curtin has to print the key, and cloud-init to leave it. In curtin_userdata (of the
snap, in /var/snap/maas/current/preseeds), below late_commands; untried:

    b200_1: ["curtin", "in-target", "--", "ssh-keygen", "-A"]
    b200_2: ["curtin", "in-target", "--", "sh", "-c",
      "echo 'ssh_deletekeys: false' > /etc/cloud/cloud.cfg.d/90-host-keys.cfg"]
    b200_3: ["curtin", "in-target", "--", "sh", "-c",
      "sed 's/^/b200kit-host-key: /' /etc/ssh/ssh_host_ed25519_key.pub"]

Operations, annotations and names of states are those of MAAS' source (src/maasserver/api/
machines.py, nodes.py, scriptresults.py, enum.py; read 2026-11-27). Tried against a stand-in only.
"""

import argparse
import base64
import http.client
import json
import os
import secrets
import ssl
import sys
import time
import urllib.error
import urllib.request
from typing import Any, NoReturn
from urllib.parse import quote

MARKER = "b200kit-host-key:"
MARK = "b200kit-act"
WORKING = ("Deploying", "Releasing", "Disk erasing")
RELEASABLE = ("Deployed", "Failed deployment", "Releasing failed", "Failed to erase disks")
Json = dict[str, Any]


class NoRedirect(urllib.request.HTTPRedirectHandler):
    """The API key goes to the address that was given, and to no other."""

    def redirect_request(self, *_: Any) -> None:
        return None


def refuse(why: str) -> NoReturn:
    print(why, file=sys.stderr)
    sys.exit(2)


def authorization() -> str:
    """OAuth 1.0 with the PLAINTEXT signature and no consumer secret (RFC 5849, 3.4.4)."""
    parts = os.environ.get("B200_TOKEN", "").split(":")
    if len(parts) != 3:
        refuse("reimage.token is no API key of MAAS: it has three parts with : between")
    consumer, token, secret = (quote(part, safe="") for part in parts)
    fields = {
        "oauth_version": "1.0",
        "oauth_signature_method": "PLAINTEXT",
        "oauth_consumer_key": consumer,
        "oauth_token": token,
        "oauth_signature": quote(f"&{secret}", safe=""),
        "oauth_nonce": secrets.token_hex(8),
        "oauth_timestamp": str(int(time.time())),
    }
    return "OAuth " + ", ".join(f'{name}="{value}"' for name, value in fields.items())


def call(path: str, form: dict[str, str] | None = None) -> Json:
    """The API's answer to GET; {} to POST, where there is a form. Raises OSError for none."""
    headers = {"Authorization": authorization(), "Accept": "application/json"}
    body = None
    if form is not None:
        # The API takes multipart/form-data (RFC 7578).
        edge, part = (
            secrets.token_hex(16),
            'Content-Disposition: form-data; name="{}"\r\n\r\n{}\r\n',
        )
        parts = [f"--{edge}\r\n{part.format(*field)}" for field in form.items()]
        body = f"{''.join(parts)}--{edge}--\r\n".encode()
        headers["Content-Type"] = f"multipart/form-data; boundary={edge}"
    request = urllib.request.Request(f"{asked.url.rstrip('/')}/api/2.0/{path}", body, headers)
    try:
        with way.open(request, timeout=60) as answer:
            found = json.load(answer) if form is None else {}
    except urllib.error.HTTPError as error:
        said = f"MAAS answers {error.code}: {error.read(200).decode(errors='replace')}"
        if error.code >= 500:
            raise ConnectionError(said) from None
        hints = {
            401: "MAAS refuses the API key: look at reimage.token",
            404: f"MAAS knows no {path.partition('?')[0]}: look at reimage.command",
        }
        refuse(hints.get(error.code, said))
    except urllib.error.URLError as error:
        if isinstance(error.reason, ssl.SSLError):
            refuse(f"{asked.url} shows a certificate that is not trusted: set --ca-file")
        raise
    except ValueError:
        found = None
    if not isinstance(found, dict):
        refuse(f"what {asked.url} answers is not MAAS' API")
    return found


def advance() -> tuple[str, bool]:
    """Look, and do what is next; the machine's state, and whether its image is there."""
    path = f"machines/{quote(asked.system, safe='')}/"
    machine = call(path)
    state, act = str(machine.get("status_name")), os.environ["B200_ACT"]
    is_marked = (machine.get("owner_data") or {}).get(MARK) == act
    comment = f"b200kit {act}: {os.environ.get('B200_WHY', '')}"[:255]
    if state == "Deployed" and is_marked:
        return state, True
    if state == "Failed deployment" and is_marked:
        sys.exit(f"MAAS says: {state}: {machine.get('status_message') or 'no reason given'}")
    if state == "Ready":
        call("machines/?op=allocate", {"system_id": asked.system, "comment": comment})
    elif state == "Allocated" and not is_marked:
        # MAAS removes it when the machine is released.
        call(f"{path}?op=set_workload_annotations", {MARK: act})
    elif state == "Allocated":
        image = os.environ.get("B200_IMAGE")
        series = {"distro_series": image} if image else {}
        call(f"{path}?op=deploy", {**series, "comment": comment})
    elif state in RELEASABLE:
        call(f"{path}?op=release", {"comment": comment})
    elif state not in WORKING:
        refuse(f"MAAS has it as {state}: it can neither be released nor deployed")
    return state, False


def host_keys() -> list[str]:
    """Host keys that the installation printed after MARKER."""
    path = f"nodes/{quote(asked.system, safe='')}/results/current-installation/"
    results = call(f"{path}?include_output=true").get("results") or []
    outputs = [
        base64.b64decode(each.get("output") or "").decode(errors="replace") for each in results
    ]
    lines = "\n".join(outputs).splitlines()
    return [line.partition(MARKER)[2].strip() for line in lines if MARKER in line]


parser = argparse.ArgumentParser(
    description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
)
parser.add_argument("url")
parser.add_argument("system")
parser.add_argument("--ca-file", help="certificates of the authority behind MAAS, PEM")
parser.add_argument("--every", type=float, default=10, help="seconds between two looks")
parser.add_argument("verb", choices=["reimage"])
parser.add_argument("node")
asked = parser.parse_args()
if not asked.url.startswith("https://"):
    refuse(f"{asked.url} must begin with https://: the API key travels there")
# A proxy of the environment is no part of what is trusted.
way = urllib.request.build_opener(
    urllib.request.ProxyHandler({}),
    urllib.request.HTTPSHandler(context=ssl.create_default_context(cafile=asked.ca_file)),
    NoRedirect,
)
last, keys = "", None
while keys is None:
    try:
        said, done = advance()
        keys = host_keys() if done else None
    except (OSError, http.client.HTTPException) as error:
        said = f"{asked.url} does not answer: {getattr(error, 'reason', error)}"
    if said != last:
        print(last := said, file=sys.stderr, flush=True)
    if keys is None:
        time.sleep(asked.every)
print(json.dumps({"host_keys": keys}))
