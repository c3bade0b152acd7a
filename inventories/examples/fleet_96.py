"""Twelve nodes, 96 GPUs: a small dense model as one instance a GPU, one gateway in front of all.

The layout with which 96 B200s were reported to serve Qwen3.5-27B FP8 at 1.1 million tokens a
second, input and output together, 1,024 in and 512 out, no prefix shared (m4r1k/vllm-1mtps, vLLM
0.18.0; quoted, not measured here). A dense model that fits one GPU is served by independent
instances: there is nothing between the GPUs to wait for, and nothing fails but one at a time.

In front is an endpoint of the whole fleet on each node (`fleet`): whichever a client asks, it has
all twelve nodes behind it, and each node balances over its own eight.
"""

from pathlib import Path

from b200kit.operations import preflight

preflight.attach()

_root = Path(__file__).resolve().parents[2]


def _node(number: int) -> dict[str, object]:
    return {
        "ssh_hostname": f"n{number:02}.example.internal",
        "ssh_user": "root",
        # group_data/ is read beside the inventory, and there is none here.
        "ssh_strict_host_key_checking": "yes",
        "ssh_known_hosts_file": str(_root / "inventories" / "known_hosts"),
        "driver": "580.126.20",
        "repositories": [
            {
                "name": "vendor",
                "url": "https://mirror.example.internal/nvidia/debian12/",
                "key": str(_root / "inventories" / "keys" / "vendor.asc"),
                "fingerprint": "0" * 40,
            }
        ],
        "engine": {
            "kind": "cuda",
            "version": "0.33.0",
            "requirements": str(_root / "requirements" / "engine-vllm-cuda-py311.txt"),
            "wheelhouse": "https://mirror.example.internal/wheels/",
        },
        "model": "qwen3.5-27b-fp8-mtp",
        "model_store": "https://models.example.internal",
        "model_revision": "0" * 64,
        "replicas": 8,
        "tensor_parallel": 1,
        "max_model_len": 4096,
        "max_num_seqs": 256,
        "max_num_batched_tokens": 8192,
        "api_key": {"env": "B200_API_KEY"},
        # On the site's own network, in plain HTTP. For TLS: gateway.certificate and fleet.ca_file.
        "gateway_bind": f"10.20.1.{number}",
        # Each node's fleet endpoint brings the connections of many clients to the others.
        "gateway": {"tls": "off", "unlimited_sources": ["10.20.1.0/24"]},
        "fleet": {"port": 8443},
        "fleet_address": f"10.20.1.{number}",
        "firewall": {
            "allow": [
                {"port": 8000, "from": ["10.20.1.0/24"]},
                {"port": 8443, "from": ["10.0.0.0/8"]},
            ]
        },
    }


nodes = [(f"n{number:02}", _node(number)) for number in range(1, 13)]
