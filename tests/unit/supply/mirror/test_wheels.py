"""The wheels of a lock: the one that a node's pip takes, with the lock's hash, from the index."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from b200kit.supply.mirror import wheels
from b200kit.supply.program import SupplyRefused
from tests.lab.supply.wheelfile import write_wheel
from tests.messages import assert_message
from tests.subtests import in_subtests


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *words: object) -> None:
        """Say nothing."""


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Path, str]]:
    """A folder of wheels that uv sees alone, as a page that lists them without their sizes."""
    folder = tmp_path / "index"
    folder.mkdir()
    write_wheel(folder, "engine", "1.0+cpu", "made for a test")
    write_wheel(folder, "library", "2.0", "made for a test")
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(folder))) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}"
        monkeypatch.setenv("UV_FIND_LINKS", f"{url}/")
        monkeypatch.setenv("UV_NO_INDEX", "1")
        monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "cache"))
        yield folder, url
        server.shutdown()


def digest(path: Path) -> str:
    """SHA-256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def lock(folder: Path, change: str = "", python: str = "3.11") -> Path:
    """A lock of both, where one hash may be another."""
    text = f"# python: {python}\n# glibc: 2.34\n"
    for name, version in (("engine", "1.0+cpu"), ("library", "2.0")):
        [wheel] = folder.glob(f"{name}-*.whl")
        sha256 = "0" * 64 if name == change else digest(wheel)
        text += f"{name}=={version} --hash=sha256:{sha256}\n"
    path = folder.parent / "lock.txt"
    path.write_text(text)
    return path


def test_each_package_has_its_wheel_with_size_and_hash(served: tuple[Path, str]) -> None:
    folder, url = served
    found = wheels.wanted(lock(folder))
    assert len(found) == 2
    for where, entry in found.items():
        wheel = folder / entry.path
        assert (entry.size, entry.sha256) == (wheel.stat().st_size, digest(wheel))
        assert where.startswith(f"{url}/")
    page = wheels.page([entry.path for entry in found.values()]).decode()
    assert 'href="engine-1.0%2Bcpu-' in page


def test_what_the_index_does_not_have_as_locked_is_refused(served: tuple[Path, str]) -> None:
    folder, _ = served
    lines = []
    for given in (
        lambda: lock(folder, change="library"),
        lambda: lock(folder, python="3.11\n# python: 3.12"),
        lambda: folder / "none.txt",
    ):
        path: Path = given()  # type: ignore[no-untyped-call]
        with pytest.raises(SupplyRefused) as refused:
            wheels.wanted(path)
        lines.append(str(refused.value).replace(str(folder.parent), "TMP"))
    assert_message("\n".join(lines))


@in_subtests(
    ("last", "taken"),
    [
        ("engine-1.0%2Bcpu-py3-none-any.whl", True),
        ("Engine-1.0+cpu-py3-none-any.whl", True),
        ("engine-1.1-py3-none-any.whl", False),
        ("library-1.0%2Bcpu-py3-none-any.whl", False),
        ("engine-1.0%2Bcpu-py3-none-any%2F..%2F..%2Fx.whl", False),
        ("..%2Fengine-1.0%2Bcpu-py3-none-any.whl", False),
        ("engine-1.0%2Bcpu-py3-none-any%00.whl", False),
        ("engine-1.0%2Bcpu.tar.gz", False),
        ("", False),
    ],
)
def test_wheel_is_written_under_the_name_that_was_locked(last: str, taken: bool) -> None:
    said = ""
    try:
        named = wheels.named("engine", "1.0+cpu", f"https://index.example/simple/{last}")
        assert named.lower() == "engine-1.0+cpu-py3-none-any.whl"
    except SupplyRefused as error:
        said = str(error)
    assert bool(said) is not taken


def test_wheels_of_another_machine_are_not_taken(tmp_path: Path) -> None:
    names = [str(tag) for tag in wheels.tags((3, 11), "2.34")]
    assert "cp311-cp311-manylinux_2_34_x86_64" in names
    assert "cp38-abi3-manylinux_2_28_x86_64" in names
    assert "py3-none-any" in names
    assert not [n for n in names if "_2_35_" in n or "aarch64" in n or n.startswith("cp312")]
