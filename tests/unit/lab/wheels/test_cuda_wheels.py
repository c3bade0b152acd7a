"""The wheelhouse that is filled from the lock of vLLM's CUDA build."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.lab.paths import LabPaths
from tests.lab.supply import cuda_wheels, wheels
from tests.lab.supply.wheelfile import sha256_of, write_wheel
from tests.lab.supply.wheels import Pin, parse_lock


def pin(wheel: Path) -> Pin:
    """As a lock names a wheel."""
    name, version = wheel.name.split("-")[:2]
    return Pin(name, version, (f"sha256:{sha256_of(wheel)}",))


def test_wheel_of_another_hash_is_removed_and_fetched_again(tmp_path: Path) -> None:
    good = write_wheel(tmp_path, "good", "1", "x")
    damaged = write_wheel(tmp_path, "damaged", "1", "x")
    pins = [pin(good), pin(damaged), Pin("absent", "1", ("sha256:00",))]
    damaged.write_bytes(b"half of it")
    assert cuda_wheels.missing(pins, tmp_path) == pins[1:]
    assert [path.name for path in tmp_path.glob("*.whl")] == [good.name]


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LabPaths:
    """A lab whose lock has twelve wheels, and whose pip fetches nothing unless a test says so."""
    lab = LabPaths(tmp_path / "lab", 3)
    for folder in (lab.cache, lab.documents, lab.mirror / cuda_wheels.FOLDER):
        folder.mkdir(parents=True)
    made = [write_wheel(lab.cache, f"w{number}", "1", "x") for number in range(12)]
    lock = tmp_path / "lock.txt"
    lock.write_text("".join(f"{pin(wheel).line()}\n" for wheel in made))
    monkeypatch.setattr(cuda_wheels, "LOCK", lock)
    monkeypatch.setattr(wheels, "ensure_tools", lambda lab: Path("python"))
    return lab


def test_only_what_is_missing_is_fetched_and_served(
    lab: LabPaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = lab.mirror / cuda_wheels.FOLDER
    asked = []

    def download(python: Path, wanted: Path, into: Path, *rest: object) -> None:
        names = [pin.name for pin in parse_lock(wanted.read_text())]
        asked.append(len(names))
        for name in names:
            (into / f"{name}-1-py3-none-any.whl").write_bytes(
                (lab.cache / f"{name}-1-py3-none-any.whl").read_bytes()
            )

    monkeypatch.setattr(wheels, "download", download)
    url = cuda_wheels.ensure(lab, lambda line: None)
    assert url.endswith(f"/{cuda_wheels.FOLDER}/")
    assert len(list((lab.documents / cuda_wheels.FOLDER).glob("*.whl"))) == 12
    (directory / "w3-1-py3-none-any.whl").unlink()
    cuda_wheels.ensure(lab, lambda line: None)
    assert asked == [10, 2, 1]


def test_pip_is_given_no_configuration_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_CONSTRAINT", "/some/constraints.txt")
    monkeypatch.setenv("PIP_FIND_LINKS", "/some/wheels")
    monkeypatch.setenv("PIP_INDEX_URL", "index")
    given = cuda_wheels._environment()
    assert {name: given.get(name) for name in ("PIP_CONSTRAINT", "PIP_FIND_LINKS")} == {
        "PIP_CONSTRAINT": None,
        "PIP_FIND_LINKS": None,
    }
    assert (given["PIP_CONFIG_FILE"], given["PIP_INDEX_URL"]) == ("/dev/null", "index")
