"""A new image by MAAS, against a stand-in that is held to MAAS' documented answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from b200kit.inventory.keys.reprovision import Reimage
from b200kit.inventory.secrets import Secret
from b200kit.reprovision.actions import ActionFailed, ActionRefused
from b200kit.reprovision.ledger_line import IntentLine
from b200kit.reprovision.reimage import Progress, Unreached
from b200kit.reprovision.reimage.maas import MARKER, System
from b200kit.run.node import Node
from tests.messages import PORT, assert_message, raises_message
from tests.subtests import in_subtests
from tests.unit.reprovision.reimage.maas_api import KEY, SYSTEM, Maas, serving
from tests.unit.run.test_known_hosts import NEW, OLD

INTENT = IntentLine(step="action", id="a1", why="gpu.lost", installation=11)
Make = Callable[..., System]


@pytest.fixture
def maas() -> Maas:
    return Maas()


@pytest.fixture
def system(maas: Maas) -> Iterator[Make]:
    made: list[System] = []
    with serving(maas) as url:

        def make(key: str = KEY, **changes: Any) -> System:
            asked = {"method": "maas", "url": url, "system": SYSTEM, "image": "noble"} | changes
            node = cast(Node, SimpleNamespace(secrets={"reimage.token": Secret(key.encode())}))
            made.append(System(node, Reimage(**asked)))
            return made[-1]

        yield make
        for each in made:
            each.close()


def until_done(system: System, intent: IntentLine) -> tuple[list[str], Progress]:
    seen: list[str] = []
    while True:
        progress = system.advance(intent)
        seen += progress.observed
        if progress.done:
            return seen, progress


def test_machine_is_released_and_deployed_and_its_installation_says_the_host_key(
    system: Make, maas: Maas
) -> None:
    made = system()
    assert made.facts() == {"installation": 11}
    maas.output = f"curtin: debug {OLD}\n{MARKER} {NEW} root@n01\n"

    seen, done = until_done(made, INTENT)

    assert [name for name, _ in maas.asked] == ["release", "deploy"]
    assert maas.asked[1][1] == {"distro_series": "noble", "comment": "b200kit a1: gpu.lost"}
    assert seen == ["Deployed", "Releasing", "Ready", "Deploying", "Deployed"]
    assert done.host_keys == (NEW,)


def test_installation_that_says_no_key_leaves_the_pinned_one(system: Make) -> None:
    assert until_done(system(), INTENT)[1].host_keys == ()


@pytest.mark.parametrize(
    ("status", "installation", "asked"),
    [
        ("Deployed", 11, ["release", "deploy"]),  # killed before it was released
        ("Releasing", 11, ["deploy"]),
        ("Ready", 11, ["deploy"]),
        ("Deploying", 12, []),  # killed while it was deployed
        ("Deployed", 12, []),  # killed right after: not a second time
    ],
)
def test_run_that_is_taken_up_again_goes_on_where_the_image_stands(
    system: Make, maas: Maas, status: str, installation: int, asked: list[str]
) -> None:
    maas.status, maas.installation = status, installation
    if status.endswith("ing"):
        maas.ways = [status, "Ready" if status == "Releasing" else "Deployed"]
    until_done(system(), INTENT)
    assert [name for name, _ in maas.asked] == asked


def test_machine_that_was_never_installed_is_deployed(system: Make, maas: Maas) -> None:
    maas.status, maas.installation = "Ready", None
    made = system()
    assert made.facts() == {"installation": None}
    until_done(made, replace(INTENT, installation=None))
    assert [name for name, _ in maas.asked] == ["deploy"]


def test_deployment_that_fails_is_told_with_its_reason(system: Make, maas: Maas) -> None:
    maas.status, maas.installation, maas.message = "Failed deployment", 12, "no space on /dev/sda"
    with raises_message(ActionFailed, PORT=PORT):
        system().advance(INTENT)
    assert not maas.asked


def test_earlier_failed_deployment_is_released_first(system: Make, maas: Maas) -> None:
    maas.status = "Failed deployment"
    assert until_done(system(), INTENT)[0][-1] == "Deployed"


def test_half_a_host_key_is_no_host_key(system: Make, maas: Maas) -> None:
    maas.installation, maas.output = 12, f"{MARKER} {NEW[:-9]}\n"
    with raises_message(ActionFailed, PORT=PORT):
        system().advance(INTENT)


@pytest.mark.parametrize(
    "changes", [{"key": "consumer7:token7:wrong"}, {"key": "one-part"}, {"system": "zzz"}]
)
def test_what_keeps_it_from_maas_is_one_line(
    system: Make, maas: Maas, changes: dict[str, Any]
) -> None:
    with pytest.raises(ActionRefused) as text:
        system(**changes).advance(INTENT)
    assert_message(str(text.value), PORT=PORT)
    assert not any(part in str(text.value) for part in ("canarysecret7", "one-part", "\n"))
    assert not maas.asked


@in_subtests("answer", [[1], "text", None])
def test_answer_that_is_no_object_is_one_line(
    answer: Any, system: Make, maas: Maas, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(maas, "look", lambda: answer)
    with pytest.raises(ActionRefused):
        system().advance(INTENT)


def test_machine_in_a_state_that_cannot_be_deployed_is_named(system: Make, maas: Maas) -> None:
    maas.status = "Broken"
    with raises_message(ActionRefused, PORT=PORT):
        system().advance(INTENT)


def test_maas_that_does_not_answer_may_answer_later(system: Make, maas: Maas) -> None:
    maas.broken = 1
    made = system()
    with raises_message(Unreached, PORT=PORT):
        made.advance(INTENT)
    assert made.advance(INTENT).observed == ("Deployed",)
    with pytest.raises(Unreached, match="does not answer"):
        system(url="http://127.0.0.1:1/MAAS").advance(INTENT)
