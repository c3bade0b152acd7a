"""`b200 init` from its words to its files, with nodes that are as a test says."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from b200kit import cli
from b200kit.cli import init
from b200kit.cli.command import USAGE
from b200kit.run.login import Login, parsed
from b200kit.site import files, look
from b200kit.site.look import NotUsable
from b200kit.site.plan import PinnedHost, name_of
from b200kit.supply.models import hub
from b200kit.supply.program import SupplyRefused
from tests.messages import assert_message
from tests.unit.site.nodes import key, node

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A known_hosts file of three nodes, of which n03 is none that is supported."""

    def login(typed: str, *others: Any) -> tuple[Login, list[Path]]:
        return Login(f"{name_of(typed)}.example.internal", "root", parsed(typed).port or 22), []

    def seen(typed: str, way: Login, pins: list[PinnedHost], *others: Any) -> Any:
        name = name_of(typed)
        if name == "n03":
            raise NotUsable("n03: Fedora 43 is not supported")
        return node(name, typed=typed, login=way, pins=tuple(pins))

    monkeypatch.setattr(look, "login", login)
    monkeypatch.setattr(look, "seen", seen)
    path = tmp_path / "known_hosts"
    path.write_text("".join(f"n0{n}.example.internal {key(str(n))}\n" for n in (1, 2, 3)))
    return path


def run(known: Path, *words: str) -> int:
    """The command, for a site beside the known_hosts file."""
    asked = ["--model", "llama-3.3-70b-fp8", "--no-fetch", "--known-hosts", str(known)]
    return cli.main(["init", *asked, *words, "--to", str(known.parent / "site")])


def test_site_is_written_once_and_then_proposed(known: Path, capsys: Capture) -> None:
    site = known.parent / "site"
    assert run(known, "root@n01", "n02") == 0
    assert_message(capsys.readouterr().err.replace(str(known.parent), "TMP"))
    assert run(known, "root@n01", "n02") == 0
    assert capsys.readouterr().out == "nothing to change\n"
    (site / files.DATA).write_text("yours = 1\n")
    assert run(known, "root@n01", "n02") == 1
    assert "-yours = 1" in capsys.readouterr().out
    assert (site / files.DATA).read_text() == "yours = 1\n"
    assert run(known, "root@n01", "n02", "--write") == 0
    assert "yours = 1" not in (site / files.DATA).read_text()
    # By its own known_hosts, once there is one.
    known.unlink()
    assert run(known, "root@n01", "n02") == 0


def test_place_that_cannot_be_written_is_refused_before_a_node_is_asked(
    known: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def asked(*_: Any) -> Any:
        raise AssertionError("a node was asked")

    monkeypatch.setattr(look, "login", asked)
    site = known.parent / "site"
    for file in (site, site / "inventories"):
        file.parent.mkdir(exist_ok=True)
        file.write_text("a file")
        assert run(known, "n01") == USAGE
        assert str(file) in capsys.readouterr().err
        file.unlink()
    site.rmdir()
    # Whoever runs the tests may write anywhere.
    monkeypatch.setattr(os, "access", lambda _, mode: not mode & os.W_OK)
    assert run(known, "n01") == USAGE
    assert f"{known.parent} cannot be written to" in capsys.readouterr().err


def test_one_node_that_is_not_usable_leaves_everything_unwritten(
    known: Path, capsys: Capture
) -> None:
    assert run(known, "n01", "n03", "n04") == 3
    said = capsys.readouterr().err
    assert ("n03: Fedora" in said, "n04: no host key" in said) == (True, True)
    assert not (known.parent / "site").exists()


def test_pinned_model_and_the_mirrors_key_are_taken_from_beside_the_inventory(
    known: Path, capsys: Capture
) -> None:
    assert run(known, "n01", "--source", "http://m.example") == 3
    assert "b200 mirror key --to" in capsys.readouterr().err
    models = known.parent / "site/inventories/models"
    models.mkdir(parents=True)
    (models / "llama-3.3-70b-fp8-0123456789ab.json").write_text("{}")
    assert run(known, "n01") == 0
    # SHA-256 of those two bytes.
    assert (
        "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"
        in (known.parent / "site" / files.DATA).read_text()
    )
    (models / "llama-3.3-70b-fp8-ffffffffffff.json").write_text("{}")
    assert run(known, "n01") == 3


def test_what_is_missing_or_wrong_is_refused_before_a_node_is_asked(
    known: Path, capsys: Capture
) -> None:
    for words in (
        ["n01"],
        ["n01", "--model", "llama-3.3-70b"],
        ["n01", "--model", "m", "--console", "n01"],
        ["n01", "root@N01.", "--model", "m"],
        ["n01", "--model", "../m"],
        ["n01", "--source", "mirror.example", "--model", "m"],
        ["n01", "--source", "http://mirror..example:8080", "--model", "m"],
        ["n01", "--source", "https://user:S3CRET@mirror.example", "--model", "m"],
        ["n01", "--source", "http://mirror.example/?token=S3CRET", "--model", "m"],
        ["n01", "--endpoint", "everywhere", "--model", "m"],
        ["n01", "--endpoint", "fe80::1%eth0", "--model", "m"],
    ):
        assert cli.main(["init", *words, "--to", str(known.parent / "site")]) == 64
    said = capsys.readouterr().err
    assert "S3CRET" not in said
    assert_message(said)


def test_what_the_vendors_and_the_hub_have_is_brought(
    known: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    site, pinned = known.parent / "site", []

    def pin(what: str, name: str, folder: Path) -> Path:
        pinned.append(what.partition("@")[0])
        folder.mkdir(parents=True)
        (folder / f"{name}-0123456789ab.json").write_text("{}")
        return folder

    def bring(preset: Any, folder: Path) -> bool:
        if preset.name == "cuda":
            raise SupplyRefused("cuda: no answer")
        return True

    monkeypatch.setattr(init, "pin", pin)
    monkeypatch.setattr(init, "bring", bring)
    # By its name on the Hub.
    words = ["n01", "--model", "nvidia/Llama-3.3-70B-Instruct-FP8", "--known-hosts", str(known)]
    assert cli.main(["init", *words, "--to", str(site)]) == 0
    said = capsys.readouterr().err
    assert ("cuda: no answer" in said, "b200 keys" in said, "b200 model pin" in said) == (
        True, True, False,
    )  # fmt: skip
    assert pinned == ["nvidia/Llama-3.3-70B-Instruct-FP8"]
    text = (site / files.DATA).read_text()
    assert ('model = "llama-3.3-70b-fp8"' in text, '"0000000000' in text) == (True, False)


def test_gated_model_asks_for_a_token_until_there_is_one(known: Path, capsys: Capture) -> None:
    site = known.parent / "site"
    token = site / "inventories/keys/hf_token"
    words = ["--model", "llama-3.3-70b-bf16"]
    assert run(known, "n01", *words) == 0
    assert_message(capsys.readouterr().err.replace(str(known.parent), "TMP"))
    assert 'hf_token = {"file": str(_here / "keys/hf_token")}' in (site / files.DATA).read_text()
    token.write_text("hf_x\n")
    (site / files.DATA).unlink()
    assert run(known, "n01", *words) == 0
    assert "umask" not in capsys.readouterr().err


def test_model_whose_terms_the_hub_alone_knows(
    known: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nothing(*_: object) -> Path:
        return Path()

    monkeypatch.setattr(init, "pin", nothing)
    monkeypatch.setattr(init, "bring", nothing)
    monkeypatch.setattr(hub, "is_gated", lambda word: word == "org/Own@" + "c" * 40)
    for word, gated in (("org/Own", True), ("org/Other", False)):
        asked = ["--model", f"{word}@{'c' * 40}", "--known-hosts", str(known)]
        assert cli.main(["init", "n01", "--to", str(known.parent / word), *asked]) == 0
        assert ("hf_token" in (known.parent / word / files.DATA).read_text()) is gated


def test_key_of_clients_is_made_once_and_only_its_owner_reads_it(known: Path) -> None:
    assert run(known, "n01") == 0
    path = known.parent / "site/inventories/keys/api_key"
    key = path.read_text()
    assert (len(key.strip()), path.stat().st_mode & 0o777) == (64, 0o600)
    assert run(known, "n01", "--write") == 0
    assert path.read_text() == key


def test_without_a_directory_it_is_the_one_here(
    known: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(known.parent)
    asked = ["--model", "our-own", "--no-fetch", "--known-hosts", str(known)]
    assert cli.main(["init", "n01", *asked]) == 0
    assert (known.parent / files.NODES).is_file()
