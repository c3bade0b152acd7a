"""The model on real nodes: begun before the driver, resumed after a kill, refused by name.

At night also what the record cannot see, and a second node that takes all from the first.
"""

from __future__ import annotations

import http.client
import json
import subprocess
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import tests.lab as lab
from b200kit.node.state import engine_probe
from tests.e2e.driving import ROOT, Outcome, command, cursor, deploy, on, remote_commands
from tests.e2e.tools import model_store
from tests.e2e.tools.model_store import SHARD, SHARD_BYTES, Store
from tests.lab.paths import BRIDGE_ADDRESS, MODEL_NAME, lab_paths

NODE, OTHER = "b200-1", "b200-2"
UNIT = "b200-weights.service"
PROGRAM = "/usr/local/lib/b200kit/node.pyz"
NETWORK = f"{BRIDGE_ADDRESS.rpartition('.')[0]}.0/24"
SERVER = {"bind": "0.0.0.0", "from": [NETWORK]}


def directory(store: Store) -> str:
    """Where a store's model lies on a node."""
    return f"/srv/models/{MODEL_NAME}/{store.revision}"


def words(store: Store, **more: Any) -> list[str]:
    """The arguments of a run that asks for a store's model."""
    data = {"model_store": store.url, "model_revision": store.revision, **more}
    pairs = [f"{k}={v if isinstance(v, str) else json.dumps(v)}" for k, v in data.items()]
    return [word for pair in pairs for word in ("--data", pair)]


def run(store: Store, *more: str, entry: str = "b200.py", **data: Any) -> Outcome:
    """A run that asks for a store's model."""
    return deploy(entry, *words(store, **data), *more)


def status(host: str, path: str) -> int:
    """What a node's weights server answers to this machine, which is one of those it names."""
    connection = http.client.HTTPConnection(host, 8090, timeout=10)
    try:
        connection.request("GET", path)
        return connection.getresponse().status
    finally:
        connection.close()


def address(name: str) -> str:
    """A node's address on the bridge."""
    return str(next(h["address"] for h in lab.status()["hosts"] if h["name"] == name))


@pytest.fixture(scope="module")
def up(boot: Callable[..., Any]) -> None:
    """A bare node."""
    boot("healthy")
    on(NODE, "journalctl --flush")


@pytest.fixture(scope="module")
def store(up: None) -> Iterator[Store]:
    """A store whose shard comes half, then not until it is let go."""
    made = model_store.build()
    made.hold_at = SHARD_BYTES // 2
    server = model_store.serve(made)
    yield made
    made.go_on.set()
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def first(store: Store) -> dict[str, Any]:
    """A run on a bare node whose fetch is killed in the middle while the driver is installed."""
    asked = [*command("b200.py", *words(store)), "--limit", NODE]
    partial = f"{directory(store)}/{SHARD}.partial"
    seen: dict[str, Any] = {}
    with subprocess.Popen(
        asked, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as controller:
        half = f"until [ $(stat -c %s {partial} 2>/dev/null || echo 0) -ge {store.hold_at} ]"
        on(NODE, f"{half}; do sleep 0.1; done")
        seen["driver"] = on(NODE, "dpkg -s nvidia-open >/dev/null 2>&1 && echo there || true")
        on(NODE, f"systemctl kill --signal=KILL {UNIT}")
        store.hold_at = None
        store.go_on.set()
        seen["said"] = controller.communicate(timeout=900)[0]
    seen["code"] = controller.returncode
    return seen


def test_fetch_had_begun_before_the_driver_was_there(first: dict[str, Any]) -> None:
    assert first["driver"] == ""


def test_run_ends_live_whatever_became_of_its_fetch(first: dict[str, Any]) -> None:
    assert first["code"] == 0, first["said"][-3000:]


def test_killed_fetch_went_on_where_it_was(first: dict[str, Any], store: Store) -> None:
    before, after = store.answers(SHARD)
    assert before.first == 0
    assert after.first == SHARD_BYTES // 2
    assert after.count == SHARD_BYTES - after.first


def test_no_other_file_was_sent_twice(first: dict[str, Any], store: Store) -> None:
    names = [one.path for one in store.sent if one.path not in (SHARD, "manifest.json")]
    assert sorted(names) == sorted(set(store.files) - {SHARD, "manifest.json"})


def test_model_was_there_before_anything_served(first: dict[str, Any], store: Store) -> None:
    stamped = float(on(NODE, f"stat -c %.3Y {directory(store)}/.complete"))
    began = "systemctl show -p ExecMainStartTimestamp --value --timestamp=us+utc vllm@0"
    assert stamped < float(on(NODE, f'date -d "$({began})" +%s.%3N'))


def test_files_are_read_only_and_the_serving_units_cannot_change_that(
    first: dict[str, Any], store: Store
) -> None:
    modes = on(NODE, f"stat -c %a:%U {directory(store)} {directory(store)}/{SHARD}")
    assert modes.splitlines() == ["555:root", "444:root"]
    pid = on(NODE, "systemctl show -p MainPID --value vllm@0")
    touch = f"nsenter -t {pid} -m touch {directory(store)}/{SHARD} 2>&1 || true"
    assert "Read-only file system" in on(NODE, touch)


def test_second_run_changes_nothing_with_two_commands(first: dict[str, Any], store: Store) -> None:
    since = cursor(NODE)
    again = run(store, "--limit", NODE)
    assert (again.code, again.host(NODE)["changes"]) == (0, 0), again.said
    assert remote_commands(NODE, since) == 2


def kept(replica: int) -> list[str]:
    """What lies in the cache directory of a replica."""
    return on(NODE, f"ls -A /var/cache/vllm/{replica}").split()


def test_caches_lie_under_the_key_of_the_configuration(first: dict[str, Any]) -> None:
    for number in (0, 1):
        keys = [name for name in kept(number) if name != engine_probe.NAME]
        assert len(keys) == 1
        shown = on(NODE, f"systemctl show -p Environment --value vllm@{number}")
        assert f"VLLM_CACHE_ROOT=/var/cache/vllm/{number}/{keys[0]}/vllm" in shown
    assert kept(0) == kept(1)


@pytest.fixture(scope="module")
def next_store(first: dict[str, Any]) -> Iterator[Store]:
    """Another revision, whose shard the store sends corrupt."""
    made = model_store.build(salt=b"2")
    made.files[SHARD] = b"\0" + made.files[SHARD][1:]
    server = model_store.serve(made)
    yield made
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def corrupt(next_store: Store) -> Outcome:
    """A run that asks for it on the node that serves the first one."""
    return run(next_store, "--limit", NODE)


def test_corrupt_shard_is_refused_by_name(corrupt: Outcome, next_store: Store) -> None:
    assert corrupt.code == 1
    message = corrupt.described(NODE)
    assert f"{SHARD}: {next_store.url}/{MODEL_NAME}/{next_store.revision}" in message
    assert "content is not what the manifest names" in message
    assert "failed at weights" in message or "failed at model" in message


def test_what_served_goes_on_serving(corrupt: Outcome, store: Store) -> None:
    assert on(NODE, "systemctl is-active vllm@0 vllm@1 haproxy").split() == ["active"] * 3
    assert store.revision in on(NODE, "cat /etc/vllm/replica-0.yaml /etc/systemd/system/vllm@0*/*")


@pytest.fixture(scope="module")
def mended(corrupt: Outcome, next_store: Store) -> Outcome:
    """The run after the store was mended."""
    next_store.files[SHARD] = model_store.build(salt=b"2").files[SHARD]
    next_store.sent.clear()
    return run(next_store, "--limit", NODE)


def test_mended_store_is_asked_for_that_shard_alone(mended: Outcome, next_store: Store) -> None:
    assert mended.code == 0, mended.said[-3000:]
    assert [one.path for one in next_store.sent] == ["manifest.json", SHARD]


def test_old_revision_stays_unless_the_inventory_says_how_many(
    mended: Outcome, next_store: Store, store: Store
) -> None:
    assert on(NODE, f"cat {directory(store)}/.complete") == store.revision


@pytest.mark.long
def test_full_hash_finds_what_the_record_cannot(mended: Outcome, next_store: Store) -> None:
    shard = f"{directory(next_store)}/{SHARD}"
    rot = f"printf X | dd of={shard} bs=1 count=1 seek=9 conv=notrunc status=none"
    on(NODE, f"touch -r {shard} /tmp/when && {rot} && touch -r /tmp/when {shard}")
    cheap = run(next_store, "--limit", NODE, entry="check.py")
    assert cheap.outcome(NODE) == "fit"
    full = run(next_store, "--limit", NODE, entry="check.py", weights_verify="hash")
    assert full.outcome(NODE) == "unfit"
    assert f"{SHARD} of {MODEL_NAME}" in full.described(NODE)
    next_store.sent.clear()
    repaired = run(next_store, "--limit", NODE, weights_verify="hash")
    assert repaired.code == 0, repaired.said[-3000:]
    assert [one.path for one in next_store.sent] == [SHARD]


@pytest.fixture(scope="module")
def shared(mended: Outcome, next_store: Store) -> Outcome:
    """Another node takes the model from the first, which serves it."""
    lab.up(2, ["healthy"], engine="stand-in")
    sharing = run(next_store, "--limit", NODE, weights={"server": SERVER})
    assert sharing.code == 0, sharing.said[-3000:]
    next_store.sent.clear()
    peer = f"http://{address(NODE)}:8090"
    return run(next_store, "--limit", OTHER, weights={"peers": [peer]})


@pytest.mark.long
def test_peer_gives_the_whole_model_and_the_store_is_asked_for_nothing(
    shared: Outcome, next_store: Store
) -> None:
    assert shared.code == 0, shared.said[-3000:]
    assert next_store.sent == []
    given = on(NODE, "journalctl -o cat --no-pager -u b200-weights-server")
    assert f'{address(OTHER)} "GET /{MODEL_NAME}/{next_store.revision}/{SHARD} ' in given


@pytest.mark.long
def test_weights_server_gives_nothing_but_models(shared: Outcome) -> None:
    for path in ("/", f"/{MODEL_NAME}/", "/../../etc/b200kit/secrets/api_key"):
        assert status(address(NODE), path) == 404


def test_access_log_of_the_lab_saw_no_model_of_ours(corrupt: Outcome, next_store: Store) -> None:
    log = lab_paths().mirror_log.read_text()
    assert next_store.revision not in log
