"""`b200 keys`: a vendor's key is the one that the catalogue pins, or none is written."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from b200kit import cli
from b200kit.catalog import load, systems
from b200kit.catalog.types import Preset
from b200kit.inventory import openpgp
from b200kit.inventory.parse import parse
from b200kit.inventory.source import preset_repository
from b200kit.inventory.spec import NodeSpec
from b200kit.operations import named_files
from b200kit.supply.program import SupplyRefused
from b200kit.supply.vendor_keys import bring
from tests.messages import assert_message
from tests.subtests import in_subtests
from tests.unit.specs import CATALOGUE, VENDOR_FINGERPRINT, VENDOR_KEY, data

# The last bytes of its packet are others.
OTHER_KEY = VENDOR_KEY.replace("AAA=\n", "YmI=\n")


@pytest.fixture
def site(request: pytest.FixtureRequest) -> Iterator[str]:
    """A vendor's site on loopback: the key at /key, short of its end at /cut, none at /gone."""

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = b"no" if self.path == "/gone" else VENDOR_KEY.encode()
            self.send_response(404 if self.path == "/gone" else 200)
            missing = 10 if self.path == "/cut" else 0
            self.send_header("Content-Length", str(len(body) + missing))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *words: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def preset(key_url: str, fingerprint: str = VENDOR_FINGERPRINT) -> Preset:
    """A vendor's repository."""
    return Preset("vendor", "https://vendor.example/", key_url, fingerprint)


def test_key_is_brought_once_and_is_the_pinned_one(site: str, tmp_path: Path) -> None:
    folder = tmp_path / "keys"
    assert bring(preset(f"{site}/key"), folder)
    written = folder / "vendor.asc"
    assert openpgp.fingerprints(written.read_text()) == [VENDOR_FINGERPRINT]
    before = written.stat()
    assert not bring(preset(f"{site}/gone"), folder)
    assert written.stat() == before


def test_another_key_in_its_place_is_replaced(site: str, tmp_path: Path) -> None:
    (tmp_path / "vendor.asc").write_text(OTHER_KEY)
    assert bring(preset(f"{site}/key"), tmp_path)
    assert openpgp.fingerprints((tmp_path / "vendor.asc").read_text()) == [VENDOR_FINGERPRINT]


def test_key_may_come_in_a_file(tmp_path: Path) -> None:
    given = tmp_path / "given"
    given.write_text(VENDOR_KEY)
    assert bring(preset("http://127.0.0.1:9/"), tmp_path, given)
    assert openpgp.fingerprints((tmp_path / "vendor.asc").read_text()) == [VENDOR_FINGERPRINT]


@in_subtests("wrong", ["another key", "no key", "not there", "nobody", "cut off"])
def test_what_is_not_the_pinned_key_is_refused_and_not_written(
    wrong: str, site: str, tmp_path: Path
) -> None:
    given = tmp_path / "given"
    given.write_text({"another key": OTHER_KEY}.get(wrong, "<html>"))
    urls = {
        "not there": f"{site}/gone",
        "nobody": "http://127.0.0.1:9/key",
        "cut off": f"{site}/cut",
    }
    with pytest.raises(SupplyRefused) as refused:
        bring(preset(urls.get(wrong, "")), tmp_path / "keys", None if wrong in urls else given)
    said = str(refused.value).replace(site, "SITE").replace(str(tmp_path), "TMP")
    assert_message(said)
    assert not (tmp_path / "keys").exists()


def test_command_brings_what_it_can_and_names_the_rest(
    site: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    there = preset(f"{site}/key")
    lost = replace(there, name="lost", key_url=f"{site}/gone")
    own = replace(systems.load()["debian12"], repositories=(lost, there))
    known = replace(load.load(), systems={"debian12": own})
    monkeypatch.setattr(load, "load", lambda: known)
    assert cli.main(["keys", "debian12", "--to", str(tmp_path / "keys")]) == 1
    assert_message(capsys.readouterr().err.replace(site, "SITE"))
    assert [path.name for path in (tmp_path / "keys").iterdir()] == ["vendor.asc"]
    assert cli.main(["keys", "debian11", "--to", str(tmp_path)]) == 2


def test_missing_key_of_a_preset_is_named_with_its_command(tmp_path: Path) -> None:
    known = systems.load()["debian12"].repositories
    named = [preset_repository(each, str(tmp_path)).model_dump() for each in known]
    spec = parse(data(system="debian12", repositories=named), CATALOGUE)
    assert isinstance(spec, NodeSpec)
    found = [p for p in named_files.missing(spec) if p.key.startswith("repositories.")]
    assert len(found) == len(known)
    assert_message(found[0].message.replace(str(tmp_path), "SITE"))


@in_subtests("system", [each.key for each in systems.supported()])
def test_every_system_has_presets_that_say_where_they_are_from(system: str) -> None:
    presets = systems.load()[system].repositories
    assert len({each.name for each in presets}) == len(presets) == 2
    for each in presets:
        assert re.fullmatch("[0-9A-F]{40}", each.fingerprint)
        assert each.url.startswith("https://")
        assert each.url.endswith("/")
        assert each.key_url.startswith("https://")


def test_one_name_is_one_key() -> None:
    """Keys lie under the name beside the inventory, whatever systems its nodes have."""
    everyone = [each for found in systems.load().values() for each in found.repositories]
    assert len({each.name for each in everyone}) == len({each.fingerprint for each in everyone})
