"""What holds for every fleet: how to connect, and never to trust a host key on first use."""

from pathlib import Path

ssh_user = "root"
ssh_look_for_keys = False
ssh_strict_host_key_checking = "yes"
ssh_known_hosts_file = str(Path(__file__).resolve().parents[1] / "known_hosts")
ssh_connect_retries = 2
# One hung command must not hold the fleet: pyinfra itself has no limit.
_timeout = 3600
