"""From what real tools print when they fail, the one line that says why."""

from __future__ import annotations

import pytest

from b200kit.node.lib.error_line import cause, unit_cause
from tests.subtests import in_subtests

APT_OTHER_KEY = """
Get:1 http://10.77.0.1:8080/apt/vendor ./ InRelease [2112 B]
Err:1 http://10.77.0.1:8080/apt/vendor ./ InRelease
  The following signatures couldn't be verified because the public key is not available: NO_PUBKEY 3BD1E5AA9C4F7E01
Reading package lists...
W: GPG error: http://10.77.0.1:8080/apt/vendor ./ InRelease: The following signatures couldn't be verified because the public key is not available: NO_PUBKEY 3BD1E5AA9C4F7E01
E: The repository 'http://10.77.0.1:8080/apt/vendor ./ InRelease' is not signed.
N: Updating from such a repository can't be done securely, and is therefore disabled by default.
"""  # noqa: E501
# apt 3.0.4 of Debian 13, 2026-11-23.
APT_3_WEAK_KEY = """
Err:1 file:/srv/r ./ InRelease
  Sub-process /usr/bin/sqv returned an error code (1), error message is: Signing key on 42A0F71FFBF67002C1F82B2F2EEEC41CE17CE701 is not bound:            No binding signature at time 2026-11-23T16:02:26Z   because: Policy rejected non-revocation signature (PositiveCertification) requiring second pre-image resistance   because: SHA1 is not considered secure since 2026-02-01T00:00:00Z
Reading package lists...
W: OpenPGP signature verification failed: file:/srv/r ./ InRelease: Sub-process /usr/bin/sqv returned an error code (1), error message is: Signing key on 42A0F71FFBF67002C1F82B2F2EEEC41CE17CE701 is not bound:            No binding signature at time 2026-11-23T16:02:26Z   because: Policy rejected non-revocation signature (PositiveCertification) requiring second pre-image resistance   because: SHA1 is not considered secure since 2026-02-01T00:00:00Z
E: The repository 'file:/srv/r ./ InRelease' is not signed.
"""  # noqa: E501
APT_3_OTHER_KEY = """
W: OpenPGP signature verification failed: file:/srv/r ./ InRelease: Sub-process /usr/bin/sqv returned an error code (1), error message is: Missing key 42A0F71FFBF67002C1F82B2F2EEEC41CE17CE701, which is needed to verify signature.
E: The repository 'file:/srv/r ./ InRelease' is not signed.
"""  # noqa: E501
APT_EXPIRED = """
Reading package lists...
E: Release file for http://mirror.example.internal/debian/dists/bookworm/InRelease is expired (invalid since 3d 1h 2min 9s). Updates for this repository will not be applied.
"""  # noqa: E501
APT_CLOCK = """
Hit:1 http://mirror.example.internal/apt ./ InRelease
Reading package lists...
E: Release file for http://mirror.example.internal/apt/./InRelease is not valid yet (invalid for another 9h 14min 8s). Updates for this repository will not be applied.
"""  # noqa: E501
APT_NO_ROUTE = """
Ign:1 http://10.77.0.1:8080/apt/vendor ./ InRelease
Err:1 http://10.77.0.1:8080/apt/vendor ./ InRelease
  Could not connect to 10.77.0.1:8080 (10.77.0.1). - connect (113: No route to host)
Reading package lists...
E: Failed to fetch http://10.77.0.1:8080/apt/vendor/./InRelease  Could not connect to 10.77.0.1:8080 (10.77.0.1). - connect (113: No route to host)
E: Some index files failed to download. They have been ignored, or old ones used instead.
"""  # noqa: E501
APT_404 = """
Err:2 http://mirror.example.internal/apt ./ Packages
  404  Not Found [IP: 10.0.0.5 80]
E: Failed to fetch http://mirror.example.internal/apt/./Packages  404  Not Found [IP: 10.0.0.5 80]
E: Some index files failed to download. They have been ignored, or old ones used instead.
"""
APT_DNS = """
Err:1 http://mirror.example.internal/apt ./ InRelease
  Could not resolve 'mirror.example.internal'
Reading package lists...
"""
APT_NO_VERSION = """
Reading package lists...
Building dependency tree...
E: Version '580.126.99-*' for 'nvidia-open' was not found
"""
APT_NO_PACKAGE = """
Reading package lists...
E: Unable to locate package nvidia-driver-pinning-580.126.99
"""
APT_FULL = """
Unpacking nvidia-kernel-open-dkms (580.126.20-1) ...
dpkg: error processing archive /var/cache/apt/archives/nvidia-kernel-open-dkms.deb (--unpack):
 cannot copy extracted data for './usr/src/nvidia-open-580.126.20/nvidia/nv.c' to '/usr/src/nvidia-open-580.126.20/nvidia/nv.c.dpkg-new': failed to write (No space left on device)
dpkg-deb: error: paste subprocess was killed by signal (Broken pipe)
E: Sub-process /usr/bin/dpkg returned an error code (1)
"""  # noqa: E501
APT_LOCKED = """
Reading package lists...
E: Could not get lock /var/lib/dpkg/lock-frontend. It is held by process 812 (unattended-upgr)
E: Unable to acquire the dpkg frontend lock (/var/lib/dpkg/lock-frontend), is another process using it?
"""  # noqa: E501
APT_BROKEN = """
The following packages have unmet dependencies:
 nvidia-open : Depends: nvidia-kernel-open-dkms (= 580.126.20-1) but 580.159.03-1 is to be installed
E: Unable to correct problems, you have held broken packages.
"""
PIP_HASH = """
Looking in links: http://10.77.0.1:8080/wheels/
ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE. If you have updated the package versions, please update the hashes. Otherwise, examine the package contents carefully; someone may have tampered with them.
    torch==2.9.1+cpu from http://10.77.0.1:8080/wheels/torch-2.9.1%2Bcpu.whl (from -r /etc/b200kit/engine-requirements.txt (line 3)):
        Expected sha256 0000
             Got        1111
"""  # noqa: E501
PIP_MISSING = """
Looking in links: http://10.77.0.1:8080/wheels/
ERROR: Could not find a version that satisfies the requirement vllm==0.32.0 (from versions: none)
ERROR: No matching distribution found for vllm==0.32.0
"""
PIP_REFUSED = """
Looking in links: http://10.77.0.1:8080/wheels/
WARNING: Retrying (Retry(total=1, connect=None, read=None, redirect=None, status=None)) after connection broken by 'NewConnectionError(': Failed to establish a new connection: [Errno 111] Connection refused')': /wheels/
ERROR: Could not find a version that satisfies the requirement vllm==0.32.0 (from versions: none)
ERROR: No matching distribution found for vllm==0.32.0
"""  # noqa: E501
PIP_FULL = """
Installing collected packages: torch
ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device
"""
SYSTEMD = """
Job for nvidia-fabricmanager.service failed because the control process exited with error code.
See "systemctl status nvidia-fabricmanager.service" and "journalctl -xeu nvidia-fabricmanager.service" for details.
"""  # noqa: E501


@in_subtests(
    ("output", "text"),
    [
        (APT_OTHER_KEY, "NO_PUBKEY 3BD1E5AA9C4F7E01"),
        (APT_3_WEAK_KEY, "E17CE701 is not bound: SHA1 is not considered secure since 2026-02-01"),
        (APT_3_OTHER_KEY, "is not signed: Missing key 42A0F71FFBF67002C1F82B2F2EEEC41CE17CE701"),
        (APT_EXPIRED, "InRelease is expired (invalid since 3d"),
        (APT_CLOCK, "is not valid yet (invalid for another 9h"),
        (APT_NO_ROUTE, "Could not connect to 10.77.0.1:8080 (10.77.0.1). - connect (113: No route"),
        (APT_404, "Failed to fetch http://mirror.example.internal/apt/./Packages 404 Not Found"),
        (APT_DNS, "Could not resolve 'mirror.example.internal'"),
        (APT_NO_VERSION, "E: Version '580.126.99-*' for 'nvidia-open' was not found"),
        (APT_NO_PACKAGE, "E: Unable to locate package nvidia-driver-pinning-580.126.99"),
        (APT_FULL, "failed to write (No space left on device)"),
        (APT_LOCKED, "It is held by process 812 (unattended-upgr)"),
        (APT_BROKEN, "E: Unable to correct problems, you have held broken packages."),
        (PIP_HASH, "its hash is not the lock's"),
        (PIP_MISSING, "satisfies the requirement vllm==0.32.0"),
        (PIP_REFUSED, "[Errno 111] Connection refused"),
        (PIP_FULL, "[Errno 28] No space left on device"),
        (SYSTEMD, "Job for nvidia-fabricmanager.service failed because the control process"),
        ("a\n\nmodel not fetched: manifest is 0123, asked for 4567\n", "model not fetched: manif"),
    ],
)
def test_most_specific_line_is_reported(output: str, text: str) -> None:
    assert text in cause(output.splitlines())


@pytest.mark.parametrize("lines", [[], ["", "  "]])
def test_silence_is_said_to_be_silence(lines: list[str]) -> None:
    assert cause(lines) == "it printed nothing"


def test_cause_is_one_line_of_readable_length() -> None:
    text = cause(["E: " + "x\t  " * 500])
    assert len(text) == 300
    assert text.endswith("…")
    assert "\t" not in text
    assert "  " not in text


VLLM_MEMORY = """
Starting vllm@0.service - vLLM replica 0 serving llama-3.3-70b-fp8...
(APIServer pid=812) INFO 11-21 10:02:11 [api_server.py:1977] vLLM API server version 0.32.0
(EngineCore_DP0 pid=950) ERROR 11-21 10:02:40 [core.py:842] EngineCore failed to start.
(EngineCore_DP0 pid=950) ERROR 11-21 10:02:40 [core.py:842] Traceback (most recent call last):
(EngineCore_DP0 pid=950) ERROR 11-21 10:02:40 [core.py:842]     raise ValueError(
(EngineCore_DP0 pid=950) ERROR 11-21 10:02:40 [core.py:842] ValueError: Free memory on device cuda:0 (12.1/178.36 GiB) on startup is less than desired GPU memory utilization (0.9, 160.52 GiB).
(APIServer pid=812) Traceback (most recent call last):
(APIServer pid=812)   File "/opt/vllm/ab/lib/python3.11/site-packages/vllm/v1/engine/utils.py", line 841, in wait_for_engine_startup
(APIServer pid=812) RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}
vllm@0.service: Main process exited, code=exited, status=1/FAILURE
vllm@0.service: Failed with result 'exit-code'.
Failed to start vllm@0.service - vLLM replica 0 serving llama-3.3-70b-fp8.
"""  # noqa: E501
VLLM_OOM = """
(EngineCore_DP0 pid=950) WARNING 11-21 10:02:40 [x.py:1] FutureError: this only warns
(EngineCore_DP0 pid=950) torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 178.36 GiB
(APIServer pid=812) RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {'EngineCore_DP0': 1}
"""  # noqa: E501
VLLM_PORT = """
(APIServer pid=812) OSError: [Errno 98] Address already in use
vllm@1.service: Control process exited, code=exited, status=1/FAILURE
"""
VLLM_802 = """
(EngineCore_DP0 pid=950) RuntimeError: Unexpected error from cudaGetDeviceCount(). Error 802: system not yet initialized
"""  # noqa: E501
FABRIC_MANAGER = """
Starting nvidia-fabricmanager.service - NVIDIA fabric manager service...
fabric manager NVIDIA GPU driver interface version 580.126.20 don't match with driver version 580.159.03. Please update with matching NVIDIA driver package.
nvidia-fabricmanager.service: Control process exited, code=exited, status=1/FAILURE
nvidia-fabricmanager.service: Failed with result 'exit-code'.
Failed to start nvidia-fabricmanager.service - NVIDIA fabric manager service.
"""  # noqa: E501
FABRIC_MANAGER_GOES_ON = """
[Nov 20 2026 10:00:01] [INFO] [tid 1204] Fabric Manager version 580.126.20 is running with the following configuration options
[Nov 20 2026 10:00:02] [ERROR] [tid 1204] failed to open the socket of the subnet manager
[Nov 20 2026 10:00:03] [ERROR] [tid 1204] failed to configure all the available GPUs or NVSwitches
[Nov 20 2026 10:00:04] [INFO] [tid 1204] closing the connections of 0 clients
"""  # noqa: E501
FABRIC_MANAGER_SCRIPT = """
Detected Pre-NVL5 system
request to query NVSwitch device information from NVSwitch driver failed with error:WARNING Nothing to do [NV_WARN_NOTHING_TO_DO]
"/usr/bin/nv-fabricmanager -c /usr/share/nvidia/nvswitch/fabricmanager.cfg" failed! Exit code: 1
nvidia-fabricmanager.service: Control process exited, code=exited, status=1/FAILURE
"""  # noqa: E501
HAPROXY = """
[NOTICE]   (631) : haproxy version is 2.6.12-1+deb12u2
[ALERT]    (631) : config : parsing [/etc/haproxy/haproxy.cfg:24] : unknown keyword 'blance' in 'backend' section
haproxy.service: Control process exited, code=exited, status=1/FAILURE
"""  # noqa: E501
PROBED = """
Starting vllm@0.service - Replica 0 serving llama...
replica 0 cannot start its engine: loopback: no connection to 127.0.0.1: timed out; IPAddressAllow=
replica 0 is not warm: the main process (pid 812) ended
vllm@0.service: Failed with result 'exit-code'.
"""
PROBED_BEFORE = f"""{PROBED}
Starting vllm@0.service - Replica 0 serving llama...
replica 0 may start, probed in 4.1 s
ValueError: No available memory for the cache blocks
replica 0 is not warm: the main process (pid 901) ended
"""
STOPPED = """
Stopping vllm@0.service - vLLM replica 0...
Stopped vllm@0.service - vLLM replica 0.
"""


@in_subtests(
    ("journal", "text"),
    [
        (VLLM_MEMORY, "ValueError: Free memory on device cuda:0 (12.1/178.36 GiB) on startup"),
        (VLLM_OOM, "OutOfMemoryError: CUDA out of memory."),
        (VLLM_PORT, "OSError: [Errno 98] Address already in use"),
        (VLLM_802, "RuntimeError: Unexpected error from cudaGetDeviceCount(). Error 802"),
        (FABRIC_MANAGER, "fabric manager NVIDIA GPU driver interface version 580.126.20 don't"),
        (FABRIC_MANAGER_GOES_ON, "[Nov 20 2026 10:00:03] [ERROR] [tid 1204] failed to configure"),
        (FABRIC_MANAGER_SCRIPT, "request to query NVSwitch device information"),
        (HAPROXY, "[ALERT] (631) : config : parsing [/etc/haproxy/haproxy.cfg:24]"),
        (PROBED, "replica 0 cannot start its engine: loopback"),
        (VLLM_MEMORY + PROBED, "replica 0 cannot start its engine: loopback"),
        (PROBED_BEFORE, "ValueError: No available memory"),
        (STOPPED, "nothing"),
        ("", "nothing"),
    ],
)
def test_journal_of_a_unit_is_searched_past_what_systemd_says_itself(
    journal: str, text: str
) -> None:
    assert unit_cause(journal.splitlines()).startswith(text)


def test_systemctl_pointing_at_the_journal_is_the_best_it_says() -> None:
    assert cause(SYSTEMD.splitlines())


def test_of_lines_that_say_the_same_the_one_with_an_address_is_reported() -> None:
    assert cause(APT_OTHER_KEY.splitlines()).startswith("W: GPG error: http://10.77.0.1:8080/apt/")
