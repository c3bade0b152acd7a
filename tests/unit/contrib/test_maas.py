"""contrib/maas.py against a stand-in that is held to MAAS' documented answers, over TLS."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from b200kit.reprovision import site_command
from b200kit.reprovision.actions import ActionFailed, ActionRefused
from tests.messages import PORT, assert_message, raises_message
from tests.subtests import in_subtests
from tests.unit.contrib.conftest import CONTRIB
from tests.unit.contrib.maas_api import KEY, SYSTEM, Maas, serving
from tests.unit.run.test_known_hosts import NEW, OLD

MARKER, MARK = "b200kit-host-key:", "b200kit-act"
WHOLE = ["release", "allocate", "set_workload_annotations", "deploy"]
Run = Callable[..., tuple[list[str], str]]


@pytest.fixture
def maas() -> Maas:
    return Maas()


@pytest.fixture
def run(maas: Maas, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    """Runs the command to its end: what it said, and its answer."""
    # No proxy counts, and no key is asked of the environment but the one that is told.
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:1")
    with serving(maas, tmp_path) as url:

        def run(
            key: str = KEY, system: str = SYSTEM, url: str = url, trust: bool = True
        ) -> tuple[list[str], str]:
            said: list[str] = []
            options = ["--ca-file", str(tmp_path / "crt")] if trust else []
            command = [str(CONTRIB / "maas.py"), url, system, "--every", "0", *options]
            told = {"B200_ACT": "a1", "B200_IMAGE": "noble", "B200_WHY": "gpu.lost"}
            told["B200_TOKEN"] = key
            try:
                return said, site_command.run(
                    command, "reimage", "n01", environment=told, say=said.append
                )
            finally:
                assert not any(part in " ".join(said) for part in ("canarysecret7", "one-part"))

        yield run


def asked(maas: Maas) -> list[str]:
    return [name for name, _ in maas.asked]


def test_machine_is_released_and_deployed_and_its_installation_says_the_host_key(
    run: Run, maas: Maas
) -> None:
    maas.output = f"curtin: debug {OLD}\n{MARKER} {NEW} root@n01\n"
    said, answer = run()
    assert asked(maas) == WHOLE
    assert maas.asked[2][1] == {MARK: "a1"}
    assert maas.asked[3][1] == {"distro_series": "noble", "comment": "b200kit a1: gpu.lost"}
    assert said == ["Deployed", "Releasing", "Ready", "Allocated", "Deploying", "Deployed"]
    assert answer == f'{{"host_keys": ["{NEW} root@n01"]}}'


def test_installation_that_says_no_key_leaves_the_pinned_one(run: Run) -> None:
    assert run()[1] == '{"host_keys": []}'


@in_subtests(
    ("status", "marked", "wanted"),
    [
        ("Deployed", "", WHOLE),  # killed before it was released
        ("Deployed", "another act", WHOLE),
        ("Failed deployment", "another act", WHOLE),
        ("Releasing", "", WHOLE[1:]),
        ("Ready", "", WHOLE[1:]),
        ("Allocated", "", WHOLE[2:]),
        ("Allocated", "a1", WHOLE[3:]),  # killed before it was deployed
        ("Deploying", "a1", []),
        ("Deployed", "a1", []),  # killed right after: not a second time
    ],
)
def test_run_that_is_taken_up_again_goes_on_where_the_image_stands(
    run: Run, maas: Maas, status: str, marked: str, wanted: list[str]
) -> None:
    maas.status, maas.marks = status, {MARK: marked} if marked else {}
    maas.asked = []
    if status.endswith("ing"):
        maas.ways = [status, "Ready" if status == "Releasing" else "Deployed"]
    run()
    assert asked(maas) == wanted


def test_deployment_that_fails_is_told_with_its_reason(run: Run, maas: Maas) -> None:
    maas.status, maas.marks, maas.message = "Failed deployment", {MARK: "a1"}, "no space"
    with pytest.raises(ActionFailed) as failed:
        run()
    assert failed.type is ActionFailed
    assert_message(str(failed.value))
    assert not maas.asked


@in_subtests(
    "changes",
    [
        {"key": "consumer7:token7:wrong"},
        {"key": "one-part"},
        {"system": "zzz"},
        {"trust": False},
        {"url": "http://127.0.0.1/MAAS"},
    ],
)
def test_what_keeps_it_from_maas_waits_for_a_person(
    run: Run, maas: Maas, changes: dict[str, Any]
) -> None:
    with raises_message(ActionRefused, PORT=PORT):
        run(**changes)
    assert not maas.asked


@in_subtests("answer", [[1], "text", None])
def test_answer_that_is_no_object_is_one_line(
    answer: Any, run: Run, maas: Maas, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(maas, "look", lambda: answer)
    with pytest.raises(ActionRefused):
        run()


def test_machine_in_a_state_that_cannot_be_deployed_is_named(run: Run, maas: Maas) -> None:
    maas.status = "Broken"
    with raises_message(ActionRefused):
        run()


def test_maas_that_does_not_answer_is_asked_again(run: Run, maas: Maas) -> None:
    maas.broken, maas.marks = 3, {MARK: "a1"}
    said, _ = run()
    assert len(said) == 2
    assert "503" in said[0]
