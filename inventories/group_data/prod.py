"""What production nodes are asked to be. `b200 explain KEY` tells of every key.

`b200 init` writes such a file from a look at your nodes; this one is an example to fill in: your
mirror, your keys. A key nobody knows, a value of the wrong type or a combination that cannot work
is refused before any connection.
"""

from pathlib import Path

_here = Path(__file__).resolve().parent.parent

ssh_key = "~/.ssh/id_ed25519"

system = "debian12"

# Packages, wheels and models: of the mirror that `b200 mirror build` makes, or "internet". A site
# with stores of its own gives repositories, engine["requirements"], engine["wheelhouse"] and
# model_store instead.
source: object = {
    "mirror": "https://mirror.example.internal",
    "key": str(_here / "keys" / "mirror.asc"),
    # Of the key you made (b200 mirror key): a mirror signed by another key is refused.
    "fingerprint": "0" * 40,
}

# Exact, because the fabric manager, NSCQ and NVSDM must equal the driver to the last digit.
driver = "580.126.20"

engine = {
    "kind": "cuda",
    "version": "0.33.0",
    "flags": {"performance-mode": "interactivity"},
}

# In fewer bits than it was published in: compared with the original first, or waived below
# (docs/layout.md).
model = "llama-3.3-70b-fp8"
# As b200 model pin or publish printed it.
model_revision = "0" * 64

# Four replicas of two GPUs: each stays within one NUMA node on two- and four-node maps. Instead of
# these and the batch limits a goal may be given, such as goal = "balanced" (docs/layout.md).
replicas = 4
tensor_parallel = 2
max_model_len = 8192
max_num_seqs = 16
max_num_batched_tokens = 8192

api_key = {"env": "B200_API_KEY"}
hf_token = {"env": "B200_HF_TOKEN"}

# Nodes that have the model already, asked before the store; and whether these offer theirs.
weights: dict[str, object] = {
    # "peers": ["http://10.0.0.11:8090"],
    # "server": {"bind": "0.0.0.0", "from": ["10.0.0.0/24"]},
    # "retain": 1,
}

smoke = {"requests": 120, "rate": 4.0, "input_tokens": 128, "output_tokens": 64}

# Settings of the operating system other than by default (`b200 explain setting`); None leaves
# one alone.
settings: dict[str, object] = {
    # "iommu": "off",
    # "cstates": "c1",
}
clock_synchronized = True
# The site's time servers; without any, those of the distribution.
time_servers: list[str] = []

# Models on local disks, by names that belong to one disk each. A disk with anything on it is
# refused unless `erase` names it. None: models lie in /srv/models, wherever that is.
storage: dict[str, object] | None = None
# storage = {"disks": ["/dev/disk/by-id/nvme-...", "/dev/disk/by-id/nvme-..."]}

# Deny what comes in but for SSH, ICMP and these. None: the firewall is another's business.
firewall: dict[str, object] | None = None
# firewall = {"allow": [{"port": 8000, "from": ["10.0.0.0/8"]}]}

# "renew" for one run accepts the nodes as they are now, such as after a board was swapped.
passport = "keep"

waivers: list[dict[str, str]] = [
    # {"check": "uniform.vbios", "subject": "GPU 5", "owner": "ops-on-call",
    #  "reason": "J-1123, board swap planned", "until": "2026-12-01"},
    # {"check": "precision.validated", "owner": "ml-serving",
    #  "reason": "J-1125, evaluated on our tasks", "until": "2027-03-01"},
]
