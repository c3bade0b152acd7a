"""Answers of a node about itself: its metrics to a Prometheus, its share to HAProxy."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from b200kit.node.lib import boot_clock, documents
from b200kit.node.state import agent
from b200kit.node.state.proof import NodeProof
from b200kit.node.status import server, shares
from tests.unit.node.agent.test_evidence import first
from tests.unit.node.status.test_metrics import known


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the agent's file would lie; nothing was given."""
    path = tmp_path / "agent.json"
    monkeypatch.setattr(agent, "PATH", str(path))
    monkeypatch.setattr(shares, "GIVEN", tmp_path / "share.json")
    return path


def write(file: Path, proof: NodeProof | None) -> None:
    """The agent's file, with a proof of this moment."""
    here = boot_clock.now()
    made = replace(proof, boot_id=here.boot_id, boot_s=here.seconds) if proof else None
    state = known(boot_id=here.boot_id, proof=made).state
    file.write_bytes(documents.to_bytes(state))


@pytest.fixture
def ask(file: Path) -> Iterator[object]:
    """Ask a server that runs."""
    listeners = {}
    for name in ("metrics", "share"):
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(file.with_name(name)))
        listener.listen()
        answer = server.answer_share if name == "share" else server.answer_metrics
        listeners[listener] = answer if name == "share" else lambda s: server.answer_metrics(s, 0.1)
    over = threading.Event()
    thread = threading.Thread(target=server.serve, args=(listeners, lambda: not over.is_set()))
    thread.start()

    def asked(name: str, request: bytes = b"") -> bytes:
        with socket.socket(socket.AF_UNIX) as line:
            line.connect(str(file.with_name(name)))
            # Who asks for the share says nothing, and may be answered and left by then.
            if request:
                line.sendall(request)
            return b"".join(iter(lambda: line.recv(65536), b""))

    yield asked
    over.set()
    with socket.socket(socket.AF_UNIX) as line:
        # It wakes whoever waits for a question; one that has seen that it is over answers none.
        line.connect(str(file.with_name("share")))
    thread.join()
    for listener in listeners:
        listener.close()


def test_each_question_is_answered_on_its_own_socket(file: Path, ask: object) -> None:
    assert callable(ask)
    write(file, first())
    get = b"GET /metrics HTTP/1.1\r\n\r\n"
    head, _, body = ask("metrics", get).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.0 200 OK\r\n")
    assert b"b200_build_info" in body
    assert ask("metrics", b"POST /metrics HTTP/1.1\r\n\r\n").startswith(b"HTTP/1.0 405 ")
    assert ask("share") == b"100%\n"
    # Nothing that is not there looks healthy.
    file.unlink()
    assert b"b200_node_in_service 0\n" in ask("metrics", get)
    assert ask("share") == b"0%\n"


def test_one_that_asks_nothing_holds_others_for_a_moment_alone(
    file: Path, ask: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert callable(ask)
    write(file, first())
    monkeypatch.setattr(server, "_WITHIN_S", 0.1)
    with socket.socket(socket.AF_UNIX) as silent:
        silent.connect(str(file.with_name("metrics")))
        assert ask("share") == b"100%\n"


def test_what_was_given_is_kept_until_it_is_the_whole(file: Path) -> None:
    write(file, first())
    for percent in ("5", "100"):
        assert shares.main(["set", percent]) == 0
        assert shares.now() == int(percent)
    assert [path.name for path in file.parent.iterdir()] == ["agent.json"]
    shares.GIVEN.write_text('{"percent": 5')
    assert shares.now() == 0


@pytest.mark.parametrize("words", [[], ["set"], ["set", "0"], ["set", "101"], ["set", "-1"]])
def test_other_words_are_refused(file: Path, words: list[str]) -> None:
    assert shares.main(words) == 2
    assert list(file.parent.iterdir()) == []


def test_a_node_without_proofs_has_what_it_was_given_and_a_damaged_file_nothing(
    file: Path,
) -> None:
    write(file, None)
    assert shares.now() == 100
    file.write_text("{")
    assert shares.now() == 0
    write(file, replace(first(), expired_s=1e9))
    state = documents.load(agent.AgentState, file)
    assert state.proof
    old = replace(state, proof=replace(state.proof, boot_id="the one before"))
    file.write_bytes(documents.to_bytes(old))
    assert shares.now() == 0


def test_sockets_are_those_that_systemd_hands_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LISTEN_FDS", raising=False)
    assert server.passed() == []
