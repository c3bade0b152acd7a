"""An inventory that cannot work is refused before the first connection, one line a fault."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.e2e.driving import PYINFRA, ROOT

KEY = """-----BEGIN PGP PUBLIC KEY BLOCK-----

mDMEZwAAABYJKwYBBAHaRw8BAQdAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=
-----END PGP PUBLIC KEY BLOCK-----
"""
CUDA = (
    '{"kind": "cuda", "version": "0.32.0", "requirements": "requirements/engine-vllm-cpu.txt",'
    ' "wheelhouse": "http://127.0.0.1:9/", "flags": {"kv-cache-dtype": "fp8"}}'
)
GOOD = {
    "driver": '"580.126.20"',
    "repositories": "[]",
    "engine": (
        '{"kind": "cpu", "version": "0.32.0", "requirements": "requirements/engine-vllm-cpu.txt",'
        ' "wheelhouse": "http://127.0.0.1:9/"}'
    ),
    "model": '"tiny-llama"',
    "model_store": '"http://127.0.0.1:9"',
    "model_revision": '"0123456789ab"',
    "replicas": "2",
    "tensor_parallel": "4",
}


def refused(tmp_path: Path, host: str = "{}", **group: str) -> str:
    """What the run prints for this data; it must exit 1 and must not have tried to connect."""
    (tmp_path / "group_data").mkdir()
    lines = [f"{name} = {value}" for name, value in (GOOD | group).items() if value]
    (tmp_path / "group_data" / "nodes.py").write_text("\n".join(lines))
    inventory = tmp_path / "site.py"
    inventory.write_text(
        "from b200kit.operations import preflight\npreflight.attach()\n"
        f"nodes = [('n05', {{'ssh_hostname': '127.0.0.1', 'ssh_port': 9}} | {host})]\n"
    )
    done = subprocess.run(
        [PYINFRA, inventory, "deploy/b200.py", "-y"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    assert "Could not connect" not in done.stderr
    assert "Traceback" not in done.stderr
    return done.stderr


def test_data_without_a_fault_gets_as_far_as_connecting(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="Could not connect"):
        refused(tmp_path)


@pytest.mark.parametrize(
    ("group", "told"),
    [
        ({"driver": '"550.90.07"'}, "driver: 550.90.07 does not support hgx-b200"),
        ({"driver": '"550"'}, "driver: 550 does not support hgx-b200"),
        ({"model": '"llama-9"'}, 'model: unknown "llama-9"'),
        ({"replicas": "9", "tensor_parallel": "1"}, "at most 8"),
        ({"replica_ports": "[8001, 8001]"}, "port 8001 is given twice"),
        ({"drivr": '"580.126.20"'}, 'unknown key; did you mean "driver"?'),
        ({"replicas": '"2"'}, "replicas: must be a whole number"),
        ({"model": ""}, "model: is required"),
        ({"api_key": '{"env": "NO_SUCH_VARIABLE"}'}, "NO_SUCH_VARIABLE is not set"),
        ({"hf_token": '{"file": "/no/such/file"}'}, "/no/such/file cannot be read"),
        (
            {"engine": GOOD["engine"].replace("engine-vllm-cpu.txt", "none.txt")},
            "none.txt cannot be read",
        ),
        ({"model": '"llama-3.1-405b-bf16"', "engine": CUDA}, "GB are missing. Try TP8"),
        ({"tensor_parallel": "3", "engine": CUDA}, "tensor_parallel=3 does not divide the heads"),
        ({"max_model_len": "9000"}, "9000 is over the 8192 tokens that tiny-llama can take"),
        ({"replica_cpus": '["0-3", "3-7"]'}, "CPUs 3 of replica 1 are also replica 0's"),
        ({"gpus": "7", "replicas": "1"}, "waive identity.nvml-count by name"),
        ({"goal": '"speed"'}, "latency, balanced, throughput"),
        ({"model_config_file": '"/no/config.json"'}, "/no/config.json cannot be read"),
    ],
)
def test_fault_is_one_line_with_file_host_and_key(
    tmp_path: Path, group: dict[str, str], told: str
) -> None:
    lines = [line for line in refused(tmp_path, **group).splitlines() if "n05:" in line]
    assert len(lines) == 1
    key = next(iter(group))
    where = tmp_path / ("site.py" if group[key] == "" else "group_data/nodes.py")
    assert lines[0].startswith(f"{where}: n05: {key}")
    assert told in lines[0]
    assert lines[0].endswith("Nothing was changed.")


def test_fault_of_one_host_names_the_inventory(tmp_path: Path) -> None:
    said = refused(tmp_path, host="{'replicas': 3}")
    assert f"{tmp_path}/site.py: n05: replicas: replicas=3 of TP4 need 12 GPUs" in said


def test_key_of_another_fingerprint_is_refused(tmp_path: Path) -> None:
    (tmp_path / "vendor.asc").write_text(KEY)
    repository = (
        f'[{{"name": "vendor", "url": "http://127.0.0.1:9/", "key": "{tmp_path}/vendor.asc", '
        f'"fingerprint": "{"AB" * 20}"}}]'
    )
    assert "the inventory pins ABAB" in refused(tmp_path, repositories=repository)


def test_template_with_a_variable_nobody_sets_is_refused(tmp_path: Path) -> None:
    template = ROOT / "templates" / "haproxy" / "haproxy.cfg.j2"
    before = template.read_text()
    try:
        template.write_text(before + "# {{ site_name }}\n")
        said = refused(tmp_path)
    finally:
        template.write_text(before)
    assert "templates/haproxy/haproxy.cfg.j2" in said
    assert "'site_name' is undefined" in said
