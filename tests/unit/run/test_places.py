"""Which site a directory belongs to."""

from __future__ import annotations

from pathlib import Path

import pytest

from b200kit import cli
from b200kit.cli.command import USAGE
from b200kit.run import places


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A site with a folder in it, where the test stands."""
    (tmp_path / "site" / "inventories").mkdir(parents=True)
    (tmp_path / "site" / "deep" / "down").mkdir(parents=True)
    monkeypatch.delenv(places.SITE, raising=False)
    monkeypatch.chdir(tmp_path / "site" / "deep" / "down")
    return tmp_path / "site"


def test_site_is_found_upwards(site: Path) -> None:
    assert places.home() == site


def test_site_that_is_named_goes_first(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(places.SITE, str(site.parent))
    assert places.home() == site.parent


def test_site_that_is_named_must_be_there(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(places.SITE, str(site / "mistyped"))
    with pytest.raises(places.NoSite, match="mistyped"):
        places.home()


def test_no_site_is_an_error_and_no_empty_answer(
    site: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(site.parent)
    monkeypatch.delenv("B200_STORE", raising=False)
    assert cli.main(["transaction", "list"]) == USAGE
    said = capsys.readouterr()
    assert (said.out, said.err.count("\n"), places.SITE in said.err) == ("", 1, True)


@pytest.mark.parametrize(
    ("inventory", "site"),
    [("a/inventories/x.py", "/w/a"), ("a/inventories/lab/x.py", "/w/a"), ("b/x.py", "/w/b")],
)
def test_a_run_belongs_to_the_site_of_its_inventory(inventory: str, site: str) -> None:
    assert places.site_of(Path("/w") / inventory) == Path(site)
