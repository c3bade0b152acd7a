"""The commands of docs/gateway.md for a first request, as they stand there, on a real gateway."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from b200kit.inventory.keys.gateway import Gateway
from b200kit.inventory.keys.parts import SecretRef
from b200kit.inventory.secrets import Secret
from tests.unit.gateway.proxy import KEYS, ROOT, running
from tests.unit.gateway.test_refusals import certificate
from tests.unit.node.client import server_thread

pytestmark = pytest.mark.process

NAME, MODEL = "n07.example.internal", "llama-3.3-70b-fp8"


def commands() -> list[str]:
    """The commands of the section, one each."""
    text = (ROOT / "docs/gateway.md").read_text(encoding="utf-8")
    section = text.partition("## The first request")[2].partition("\n## ")[0]
    block = [line[4:] for line in section.splitlines() if line.startswith("    ")]
    return re.split(r"\n(?=printf|curl)", "\n".join(block))


@pytest.mark.skipif(not shutil.which("curl"), reason="needs curl")
def test_commands_of_the_page_reach_a_live_node(tmp_path: Path) -> None:
    pem = certificate(tmp_path, NAME)
    (tmp_path / "authority.pem").write_bytes((tmp_path / "crt").read_bytes())
    settings = {
        "gateway": Gateway(certificate=SecretRef(env="C")),
        "secrets": {**KEYS, "gateway.certificate": Secret(pem)},
    }
    with (
        server_thread.running(key="node-key") as url,
        running(tmp_path, [urlsplit(url).port or 0], **settings) as proxy,
    ):
        to = f"{NAME}:8000:localhost:{urlsplit(proxy.url).port}"
        (tmp_path / ".curlrc").write_text(f"connect-to = {to}\nfail\nsilent\nshow-error\n")
        env = {**os.environ, "HOME": str(tmp_path), "B200_API_KEY": "node-key"}

        def run(command: str, **more: str) -> subprocess.CompletedProcess[str]:
            return subprocess.run(
                ["bash", "-c", command.replace(MODEL, server_thread.MODEL)],
                env={**env, **more}, cwd=tmp_path, capture_output=True, text=True, check=False,
            )  # fmt: skip

        health, models, chat = commands()
        answers = [run(command) for command in (health, models, chat)]
        assert [answer.returncode for answer in answers] == [0, 0, 0], answers
        assert server_thread.MODEL in answers[1].stdout
        assert json.loads(answers[2].stdout)["choices"][0]["message"]["content"]
        assert "401" in run(chat, B200_API_KEY="wrong").stderr
