"""The stand-in engine keeps vLLM's contract, and can never be taken for vLLM."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from b200kit.node.client.chat import Endpoint
from b200kit.node.client.http import Exchange, exchange
from tests.lab.standin.knobs import Knobs
from tests.lab.standin.options import OptionError, parse
from tests.unit.node.client.server_thread import MODEL, running

REPOSITORY = Path(__file__).parents[4]


def get(url: str, path: str, key: str | None = None) -> Exchange:
    """One GET."""
    return asyncio.run(Endpoint(url, key).get(path))


def post(url: str, body: object, **headers: str) -> Exchange:
    """One POST of a chat completion."""
    return asyncio.run(exchange("POST", f"{url}/v1/chat/completions", headers, body))


BODY = {"model": MODEL, "messages": [{"role": "user", "content": "hi"}], "max_tokens": 3}


def test_the_key_guards_v1_only() -> None:
    with running(key="k") as url:
        assert get(url, "/v1/models").status == 401
        assert get(url, "/v1/models", "wrong").status == 401
        assert get(url, "/v1/models", "k").status == 200
        assert get(url, "/health").status == 200
        assert get(url, "/metrics").status == 200


def test_every_answer_says_that_it_is_a_stand_in() -> None:
    with running() as url:
        whole = json.loads(post(url, BODY).body())
        events = post(url, BODY | {"stream": True}).events()
    chunks = [json.loads(text) for _, text in events if text != "[DONE]"]
    assert {item["system_fingerprint"] for item in [whole, *chunks]} == {"b200kit-stand-in"}
    assert events[-1][1] == "[DONE]"
    assert chunks[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("disable-log-requests: true\n", "unrecognized arguments: --disable-log-requests"),
        ("- a\n", "not a flat"),
        ("nested:\n  key: 1\n", "not a flat"),
    ],
)
def test_what_vllm_would_not_take_is_refused(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "c.yaml"
    path.write_text(text)
    with pytest.raises(OptionError, match=said):
        parse(["--config", str(path)])


def test_an_unknown_flag_or_fault_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse(["--disable-log-requests"])
    assert "unrecognized arguments" in capsys.readouterr().err
    with pytest.raises(ValueError, match="no fault 'nonsense'"):
        Knobs.of({"STANDIN_FAULT": "nonsense"})
    with pytest.raises(ValueError, match="STANDIN_ITL_MS"):
        Knobs.of({"STANDIN_ITL_MS": "fast"})
