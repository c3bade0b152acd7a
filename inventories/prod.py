"""Production: which nodes there are. What they are asked to be stands in group_data/.

Copy this file and group_data/, put your hosts' keys into known_hosts (from your provisioning
system, never by trusting a first connection), and look before you leap:

    pyinfra inventories/prod.py deploy/b200.py --dry
"""

from b200kit.operations import preflight

preflight.attach()

nodes = [
    ("n01", {"ssh_hostname": "n01.example.internal"}),
    ("n02", {"ssh_hostname": "n02.example.internal"}),
]
