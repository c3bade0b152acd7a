"""An inventory that cannot work is refused before the first connection, one line a fault.

One run over an inventory in which every group has a fault of its own, and nobody listens.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.fake.forked import Forked
from tests.messages import assert_message
from tests.subtests import in_subtests

KEY = """-----BEGIN PGP PUBLIC KEY BLOCK-----

mDMEZwAAABYJKwYBBAHaRw8BAQdAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=
-----END PGP PUBLIC KEY BLOCK-----
"""
CUDA = (
    '{"kind": "cuda", "version": "0.32.0", "requirements": "requirements/engine-vllm-cpu.txt",'
    ' "wheelhouse": "http://127.0.0.1:9/", "flags": {"kv-cache-dtype": "fp8"}}'
)
SOUND_CUDA = CUDA.replace("cpu.txt", "cuda-py312.txt").replace("0.32.0", "0.33.0")
NO_LOCK = SOUND_CUDA.replace('"requirements": "requirements/engine-vllm-cuda-py312.txt",', "")
GOOD = {
    "driver": '"580.126.20"',
    "repositories": "[]",
    "engine": (
        '{"kind": "cpu", "version": "0.32.0", "requirements": "requirements/engine-vllm-cpu.txt",'
        ' "wheelhouse": "http://127.0.0.1:9/"}'
    ),
    "model": '"tiny-llama"',
    "model_store": '"http://127.0.0.1:9"',
    "model_revision": repr("0123456789abcdef" * 4),
    "replicas": "2",
    "tensor_parallel": "4",
    "ssh_strict_host_key_checking": '"yes"',
    "ssh_known_hosts_file": '"inventories/known_hosts"',
}
FAULTS: list[dict[str, str]] = [
    {"driver": '"550.90.07"'},
    {"driver": '"550"'},
    {"model": '"llama-9"'},
    {"replicas": "9", "tensor_parallel": "1"},
    {"replica_ports": "[8001, 8001]"},
    {"drivr": '"580.126.20"'},
    {"replicas": '"2"'},
    {"model": ""},
    {"api_key": '{"env": "NO_SUCH_VARIABLE"}'},
    {"hf_token": '{"file": "/no/such/file"}'},
    {"engine": GOOD["engine"].replace("engine-vllm-cpu.txt", "none.txt")},
    {"model": '"llama-3.1-405b-bf16"', "engine": CUDA},
    {"tensor_parallel": "3", "engine": CUDA},
    {"max_model_len": "9000"},
    {"replica_cpus": '["0-3", "3-7"]'},
    {"gpus": "7", "replicas": "1"},
    {"goal": '"speed"'},
    {"model_config_file": '"/no/config.json"'},
    {"ssh_hostnam": '"n01.example.internal"'},
    {"ssh_colour": '"blue"'},
    {"_sudoo": "True"},
    {"ssh_key": '"/no/such/key"'},
    {"ssh_key": '"README.md"'},
    {"ssh_strict_host_key_checking": ""},
    {"ssh_strict_host_key_checking": '"accept-new"'},
    {"ssh_strict_host_key_checking": '"no"'},
    {"ssh_known_hosts_file": ""},
    {"ssh_known_hosts_file": '"/no/such/known_hosts"'},
    {"engine": SOUND_CUDA.replace("requirements/", "inventories/")},
    {"engine": SOUND_CUDA.replace('"0.33.0"', '"0.32.0"')},
    {"engine": NO_LOCK.replace('"0.33.0"', '"0.32.0"'), "system": '"debian13"'},
    {"engine": NO_LOCK, "system": '"ubuntu2204"'},
    {"engine": NO_LOCK},
    {"gateway_port": "9"},
]
OF_A_HOST = "of_a_host"


def no_one_listens(number: int) -> str:
    """Where a host is reached, each at an address of its own."""
    return f"{{'ssh_hostname': '127.0.0.{number}', 'ssh_port': 9}}"


def write(folder: Path, hosts: dict[str, str]) -> Path:
    """An inventory of groups by name, each with the data of its one host, in Python's words."""
    groups = [
        f"{name} = [('{name}-host', {no_one_listens(number)} | {own})]"
        for number, (name, own) in enumerate(hosts.items(), 1)
    ]
    inventory = folder / "site.py"
    attach = "from b200kit.operations import preflight\npreflight.attach()\n"
    inventory.write_text(attach + "\n".join(groups) + "\n")
    (folder / "group_data").mkdir()
    return inventory


def group_data(folder: Path, name: str, **changes: str) -> None:
    """What a group's hosts have in common; an empty value is no key."""
    lines = [f"{key} = {value}" for key, value in (GOOD | changes).items() if value]
    (folder / "group_data" / f"{name}.py").write_text("\n".join(lines))


def run(inventory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The real CLI over an inventory."""
    begun = Forked([inventory, "deploy/b200.py", "-y", *arguments], os.environ)
    out, err = begun.communicate()
    return subprocess.CompletedProcess(arguments, begun.wait(), out, err)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the inventory with all faults lies."""
    return tmp_path_factory.mktemp("site")


@pytest.fixture(scope="module")
def refused(folder: Path) -> str:
    """What one run over all faults prints; it must exit 1 and must not have tried to connect."""
    names = [f"fault_{number}" for number in range(len(FAULTS))]
    inventory = write(folder, dict.fromkeys((*names, "key_of_another"), "{}"))
    for name, changes in zip(names, FAULTS, strict=True):
        group_data(folder, name, **changes)
    (folder / "vendor.asc").write_text(KEY)
    repository = (
        f'[{{"name": "vendor", "url": "http://127.0.0.1:9/", "key": "{folder}/vendor.asc", '
        f'"fingerprint": "{"AB" * 20}"}}]'
    )
    group_data(folder, "key_of_another", repositories=repository)
    done = run(inventory)
    assert done.returncode == 1, done.stderr
    assert "Could not connect" not in done.stderr
    return done.stderr


def line_of(refused: str, group: str) -> str:
    """The one line about a group's host."""
    [line] = [line for line in refused.splitlines() if f" {group}-host:" in line]
    assert line.endswith("Nothing was changed.")
    return line


def test_inventory_without_a_node_is_refused_and_so_is_one_that_is_not_there(
    tmp_path: Path,
) -> None:
    empty = write(tmp_path, {})
    for inventory, said in (
        (empty, "no node"),
        (Path("inventories/prd.py"), "inventories/prod.py?"),
    ):
        done = run(inventory)
        [line] = [line for line in done.stderr.splitlines() if line.startswith(f"{inventory}: ")]
        assert said in line
        assert (done.returncode, "Connecting" in done.stderr) == (1, False)


def test_data_without_a_fault_gets_as_far_as_connecting(tmp_path: Path) -> None:
    inventory = write(tmp_path, {"sound": "{}"})
    group_data(tmp_path, "sound")
    assert "Could not connect" in run(inventory).stderr


@in_subtests("number", range(len(FAULTS)), ids=lambda n: str(FAULTS[n]))
def test_fault_is_one_line_with_file_host_and_key(refused: str, folder: Path, number: int) -> None:
    [key, *_] = FAULTS[number]
    line = line_of(refused, f"fault_{number}")
    where = "site.py" if FAULTS[number][key] == "" else f"group_data/fault_{number}.py"
    assert line.startswith(f"{folder / where}: fault_{number}-host: {key}")
    assert_message(line, TMP=folder)


def test_fault_of_one_host_names_the_inventory(tmp_path: Path) -> None:
    inventory = write(tmp_path, {OF_A_HOST: "{'replicas': 3}"})
    group_data(tmp_path, OF_A_HOST)
    done = run(inventory)
    line = line_of(done.stderr, OF_A_HOST)
    assert line.startswith(f"{inventory}: {OF_A_HOST}-host: replicas: ")
    assert "replicas=3 of TP4 need 12 GPUs" in line
    assert done.returncode == 1
    assert "Traceback" not in done.stderr


def test_value_that_pyinfra_itself_refuses_is_a_line_with_the_node(tmp_path: Path) -> None:
    inventory = write(tmp_path, {OF_A_HOST: "{'ssh_key_password': 4711}"})
    group_data(tmp_path, OF_A_HOST)
    done = run(inventory)
    line = line_of(done.stderr, OF_A_HOST)
    assert line.startswith(f"{inventory}: {OF_A_HOST}-host: ssh_key_password: ")
    assert (done.returncode, "4711" in done.stderr) == (1, False)


@in_subtests(
    ("lines", "said"),
    [
        ("import sys\nsys.exit(3)", "ended the program (3)"),
        ("raise SystemExit('the vault is locked')", "ended the program (the vault is locked)"),
        ("nodes = ['@local']", "@local: "),
        ("nodes = [('n1', {4: 5})]", "n1: 4: "),
    ],
)
def test_inventory_of_which_pyinfra_says_nothing_is_one_line(
    tmp_path: Path, lines: str, said: str
) -> None:
    inventory = tmp_path / "site.py"
    attach = "from b200kit.operations import preflight\npreflight.attach()\n"
    inventory.write_text(f"{attach}{lines}\n")
    (tmp_path / "group_data").mkdir(exist_ok=True)
    group_data(tmp_path, "nodes")
    done = run(inventory)
    [line] = [each for each in done.stderr.splitlines() if "Nothing was changed" in each]
    assert line.startswith(f"{inventory}: ")
    assert said in line
    assert (done.returncode, "Traceback" in done.stderr) == (1, False)


@in_subtests(
    ("content", "said"),
    [
        (b"raise SystemExit(0)\n", "ended the program"),
        ("model = 'x'\n".encode("utf-16"), "nodes.py: it is no UTF-8 text"),
    ],
)
def test_group_data_that_cannot_be_read_is_one_line(
    tmp_path: Path, content: bytes, said: str
) -> None:
    (tmp_path / "group_data").mkdir(exist_ok=True)
    inventory = tmp_path / "site.py"
    attach = "from b200kit.operations import preflight\npreflight.attach()\n"
    inventory.write_text(f"{attach}nodes = ['n1']\n")
    (tmp_path / "group_data" / "nodes.py").write_bytes(content)
    done = run(inventory)
    [line] = [each for each in done.stderr.splitlines() if "Nothing was changed" in each]
    assert said in line
    assert (done.returncode, "Traceback" in done.stderr) == (1, False)


def test_host_outside_the_limit_must_be_pinned_too(tmp_path: Path) -> None:
    inventory = write(tmp_path, {"sound": "{}", "open": "{}"})
    group_data(tmp_path, "sound")
    group_data(tmp_path, "open", ssh_strict_host_key_checking="")
    done = run(inventory, "--limit", "sound")
    line = line_of(done.stderr, "open")
    assert "ssh_strict_host_key_checking" in line
    assert "Could not connect" not in done.stderr


def test_command_line_cannot_unpin_a_host(tmp_path: Path) -> None:
    inventory = write(tmp_path, {"sound": "{}"})
    group_data(tmp_path, "sound")
    done = run(inventory, "--data", "ssh_strict_host_key_checking=accept-new")
    assert line_of(done.stderr, "sound").startswith("--data: ")
    assert "Could not connect" not in done.stderr


def test_refusal_of_many_hosts_shows_no_traceback(refused: str) -> None:
    assert "failed with SystemExit" not in refused
    assert "Traceback" not in refused


def test_key_of_another_fingerprint_is_refused(refused: str, folder: Path) -> None:
    assert_message(line_of(refused, "key_of_another"), TMP=folder)


def test_group_data_of_the_wrong_name_is_one_line(tmp_path: Path) -> None:
    inventory = write(tmp_path, {"prod": "{}"})
    hosts = [(f"n{number:02d}", {"ssh_port": 9}) for number in range(1, 7)]
    inventory.write_text(f"{inventory.read_text()}prod = {hosts!r}\n")
    # The file of another group: nobody reads it.
    group_data(tmp_path, "production")
    done = run(inventory)
    lines = [line for line in done.stderr.splitlines() if "Nothing was changed" in line]
    assert done.returncode == 1
    assert len(lines) == 1
    assert_message(*lines, TMP=tmp_path)


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An inventory of two nodes."""
    inventory = write(tmp_path_factory.mktemp("two"), dict.fromkeys(("prod", "spare"), "{}"))
    for name in ("prod", "spare"):
        group_data(inventory.parent, name)
    return inventory


@in_subtests(
    "options",
    [
        ["--limit", "prod-hst"],
        ["--limit", "spar"],
        ["--limit", "prod-host", "--limit", "nobody"],
        ["--exclude", "prod-h0st"],
        ["--exclude", "prod,spare"],
        ["--limit", "prod", "--exclude", "prod-host"],
    ],
    ids=" ".join,
)
def test_name_that_fits_no_node_is_refused_before_any_connection(
    two: Path, options: list[str]
) -> None:
    done = run(two, *options)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "Could not connect" not in done.stderr
    assert "Traceback" not in done.stderr
    assert_message(*[line for line in done.stderr.splitlines() if "Nothing was" in line])


@in_subtests("pattern", ["prod", "prod-*", "*host"])
def test_group_or_pattern_selects_its_nodes(two: Path, pattern: str) -> None:
    assert "Could not connect" in run(two, "--limit", pattern).stderr


def test_own_variable_of_a_file_is_no_misspelt_key(tmp_path: Path) -> None:
    inventory = write(tmp_path, {"sound": "{}"})
    group_data(tmp_path, "sound", _site="'berlin'", ssh_allow_agent="False")
    assert "Could not connect" in run(inventory).stderr
