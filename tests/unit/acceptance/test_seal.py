"""A sealed run is believed as its node sealed it, and not otherwise, whatever was changed in it."""

from __future__ import annotations

import io
import shutil
import tarfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from b200kit.acceptance import seal
from b200kit.node.acceptance import folder as folders
from b200kit.node.lib import documents, signature
from b200kit.node.state.verdict import Verdict
from b200kit.run import node_archive, signed_proof
from tests.subtests import in_subtests
from tests.unit.acceptance import runs


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run of n01, and keys of n01 and n02."""
    folder = tmp_path_factory.mktemp("site")
    runs.key_of(folder, "n02")
    runs.sealed(folder, runs.plan())
    return folder


def run_of(site: Path, to: Path) -> Path:
    """A copy of the run."""
    return Path(shutil.copytree(next(site.glob("n01-*")), to / "run"))


def verified(site: Path, path: Path, node: str | None = None) -> seal.SealedRun:
    """The run, by the pinned keys of the site."""
    hosts = site / "known_hosts"
    allowed = partial(signed_proof.pinned, hosts, namespace=signature.ACCEPTANCE)
    return seal.verified(path, allowed, node)


def refused(site: Path, path: Path, node: str | None = None) -> str:
    """What the refusal names first."""
    with pytest.raises((OSError, ValueError)) as error:
        verified(site, path, node)
    return str(error.value).partition(":")[0].removeprefix(f"{path}/")


def test_a_run_is_verified_and_its_verdict_computed_again(site: Path, tmp_path: Path) -> None:
    found = verified(site, run_of(site, tmp_path), "n01")
    assert found.plan == runs.plan()
    assert found.verdict == documents.load(Verdict, found.path / folders.VERDICT)
    assert found.signed_by.startswith("SHA256:")


def test_one_byte_that_is_another_in_any_file_is_refused(site: Path, tmp_path: Path) -> None:
    path = run_of(site, tmp_path)
    names = [p.relative_to(path).as_posix() for p in sorted(path.rglob("*")) if p.is_file()]
    assert {folders.SUMS, folders.SIGNATURE, folders.PLAN, folders.LINES} < {*names}
    for name in names:
        content = (path / name).read_bytes()
        for at in (0, len(content) // 2, len(content) - 1):
            changed = bytes([content[at] ^ 1])
            (path / name).write_bytes(content[:at] + changed + content[at + 1 :])
            by = refused(site, path)
            # A line of SHA256SUMS that is another names another file, or none.
            assert by == name or name in (folders.SUMS, folders.SIGNATURE), (name, at, by)
        (path / name).write_bytes(content)
    verified(site, path)


def _extra(path: Path, site: Path) -> str:
    del site
    (path / "raw" / "900-more.out").write_text("more\n")
    return "raw/900-more.out"


def _extra_folder_link(path: Path, site: Path) -> str:
    (path / "more").symlink_to(site, target_is_directory=True)
    return "more"


def _missing(path: Path, site: Path) -> str:
    del site
    found = next(path.glob("raw/*"))
    found.unlink()
    return f"raw/{found.name}"


def _linked(path: Path, site: Path) -> str:
    found = next(path.glob("raw/*"))
    other = site / "elsewhere"
    other.write_bytes(found.read_bytes())
    found.unlink()
    found.symlink_to(other)
    return f"raw/{found.name}"


def _by_another_key(path: Path, site: Path) -> str:
    runs.seal(path, runs.key_of(site, "n02"))
    return folders.SIGNATURE


def _for_something_else(path: Path, site: Path) -> str:
    runs.seal(path, runs.key_of(site), signature.NAMESPACE)
    return folders.SIGNATURE


def _other_verdict(path: Path, site: Path) -> str:
    (path / folders.VERDICT).write_bytes(documents.to_bytes(Verdict()))
    runs.seal(path, runs.key_of(site))
    return folders.VERDICT


def _other_output(path: Path, site: Path) -> str:
    found = next(path.glob("raw/*"))
    found.write_text("another\n")
    runs.seal(path, runs.key_of(site))
    return f"raw/{found.name}"


def _torn_lines(path: Path, site: Path) -> str:
    with (path / folders.LINES).open("ab") as file:
        file.write(b'{"schema"')
    runs.seal(path, runs.key_of(site))
    return folders.LINES


def _unlisted(path: Path, site: Path) -> str:
    """A line less in SHA256SUMS, signed so by the node itself."""
    sums = (path / folders.SUMS).read_bytes().splitlines(keepends=True)
    (path / folders.SUMS).write_bytes(b"".join(sums[1:]))
    signed = signature.sign(b"".join(sums[1:]), runs.key_of(site), signature.ACCEPTANCE)
    (path / folders.SIGNATURE).write_bytes(signed)
    return sums[0].decode().split()[1]


def _outside(path: Path, site: Path) -> str:
    """A line that leads out of the folder, to a file that is there."""
    del site
    sums = (path / folders.SUMS).read_text()
    (path.parent / "plan.json").write_text("x")
    digest = folders.sha256(path.parent / "plan.json")
    (path / folders.SUMS).write_text(sums + f"{digest}  ../plan.json\n")
    return "../plan.json"


SPOILED: list[Callable[[Path, Path], str]] = [
    _extra, _extra_folder_link, _missing, _linked, _by_another_key, _for_something_else,
    _other_verdict, _other_output, _torn_lines, _unlisted, _outside,
]  # fmt: skip


@in_subtests("spoil", SPOILED)
def test_what_is_not_as_it_was_sealed_is_refused_by_its_file(
    spoil: Callable[[Path, Path], str], site: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = run_of(site, tmp_path_factory.mktemp("copy"))
    expected = spoil(path, site)
    assert refused(site, path) == expected


def test_a_run_of_another_node_or_of_one_without_a_pinned_key_is_refused(
    site: Path, tmp_path: Path
) -> None:
    path = run_of(site, tmp_path)
    assert refused(site, path, "n02") == folders.PLAN
    (tmp_path / "known_hosts").write_text("")
    assert refused(tmp_path, path) == str(tmp_path / "known_hosts")


def kept(site: Path, content: bytes, target: Path) -> seal.SealedRun:
    """A run that came as an archive."""
    hosts = site / "known_hosts"
    allowed = partial(signed_proof.pinned, hosts, namespace=signature.ACCEPTANCE)
    return seal.keep(content, target, allowed, "n01")


def test_an_archive_is_kept_whole_or_not_at_all(site: Path, tmp_path: Path) -> None:
    path = run_of(site, tmp_path)
    content, _ = node_archive.received(runs.packed(path, runs.plan().id))
    target = tmp_path / "acceptance" / "n01-run"
    # Left behind by a run that was killed.
    (target.parent / ".n01-run.new" / "raw").mkdir(parents=True)
    found = kept(site, content, target)
    assert found.path == target
    assert found == verified(site, target)
    assert [p.name for p in target.parent.iterdir()] == ["n01-run"]

    (path / folders.PLAN).write_bytes(documents.to_bytes(runs.plan(level="standard")))
    other, _ = node_archive.received(runs.packed(path, "other"))
    for wrong in (other, content[:-20], b"", content[:-1000] + bytes(1000)):
        with pytest.raises((OSError, ValueError)):
            kept(site, wrong, target.with_name("other"))
    assert [p.name for p in target.parent.iterdir()] == ["n01-run"]


@in_subtests("name", ["../../etc/passwd", "raw/../../x", ".hidden", "raw/sub/x", "a b"])
def test_an_archive_writes_into_its_own_folder_alone(
    name: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        entry = tarfile.TarInfo(f"run/{name}")
        entry.size = 1
        tar.addfile(entry, io.BytesIO(b"x"))
    folder = tmp_path_factory.mktemp("site") / "acceptance"
    with pytest.raises(ValueError, match="no file of a run"):
        seal.keep(packed.getvalue(), folder / "run", lambda _: "", "n01")
    assert [p for p in folder.parent.rglob("*") if p.is_file()] == []
