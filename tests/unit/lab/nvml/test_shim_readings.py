"""The real nvidia-ml-py, asking the stand-in about healthy and faulty nodes."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.subtests import in_subtests
from tests.unit.lab.shim_kit import ask, facts, start, write_conf

pytestmark = pytest.mark.process

READ_8 = "[{call}(handle(i)) for i in range(n.nvmlDeviceGetCount())]"


def test_healthy_node_reads_as_the_capture_does(library: Path, tmp_path: Path) -> None:
    conf = write_conf(tmp_path / "conf", facts())
    expected = {
        "n.nvmlSystemGetDriverVersion()": "580.126.20",
        "n.nvmlSystemGetNVMLVersion()": "13.580.126.20",
        "n.nvmlSystemGetCudaDriverVersion_v2()": 13000,
        "n.nvmlDeviceGetCount()": 8,
        "n.nvmlDeviceGetName(handle(0))": "NVIDIA B200",
        "n.nvmlDeviceGetVbiosVersion(handle(0))": "97.00.FA.00.09",
        "n.nvmlDeviceGetInforomImageVersion(handle(0))": "G525.0220.00.03",
        "n.nvmlDeviceGetBoardPartNumber(handle(0))": "692-2G525-0220-500",
        "n.nvmlDeviceGetSerial(handle(7))": "1650000000008",
        "n.nvmlDeviceGetPciInfo(handle(2)).busId": "00000000:52:00.0",
        "n.nvmlDeviceGetPciInfo(handle(2)).pciDeviceId": 0x290110DE,
        "n.nvmlDeviceGetCudaComputeCapability(handle(0))": [10, 0],
        "n.nvmlDeviceGetMemoryInfo(handle(0)).total // 2**20": 183359,
        "n.nvmlDeviceGetMemoryInfo(handle(0), version=n.nvmlMemory_v2).reserved // 2**20": 728,
        "n.nvmlDeviceGetBAR1MemoryInfo(handle(0)).bar1Total // 2**20": 262144,
        "n.nvmlDeviceGetPowerManagementLimit(handle(0))": 1000000,
        "n.nvmlDeviceGetMaxClockInfo(handle(0), n.NVML_CLOCK_SM)": 1965,
        "n.nvmlDeviceGetMaxClockInfo(handle(0), n.NVML_CLOCK_MEM)": 3996,
        "n.nvmlDeviceGetMaxPcieLinkGeneration(handle(0))": 5,
        "n.nvmlDeviceGetCurrPcieLinkWidth(handle(0))": 16,
        "n.nvmlDeviceGetEccMode(handle(0))": [1, 1],
        "n.nvmlDeviceGetMigMode(handle(0))": [0, 0],
        "n.nvmlDeviceGetTotalEccErrors(handle(0), 1, 1)": 0,
        "n.nvmlDeviceGetRemappedRows(handle(0))": [0, 0, 0, 0],
        "n.nvmlDeviceGetTemperatureV(handle(0), 0)": 39,
        "n.nvmlDeviceGetMarginTemperature(handle(0))": 49,
        "n.nvmlDeviceGetGspFirmwareVersion(handle(0)).decode()": "580.126.20",
        "n.nvmlDeviceGetNvLinkVersion(handle(0), 17)": 7,
        "n.nvmlDeviceGetNvLinkRemoteDeviceType(handle(0), 0)": 2,
        "n.nvmlDeviceGetTopologyCommonAncestor(handle(0), handle(3))": 40,
        "n.nvmlDeviceGetTopologyCommonAncestor(handle(0), handle(4))": 50,
        "list(n.nvmlDeviceGetCpuAffinityWithinScope(handle(4), 1, 0))": [2],
        "list(n.nvmlDeviceGetMemoryAffinity(handle(4), 1, 0))": [2],
        "fabric(0)": [3, 0, 0, 0x80, 1],
        "fabric(0, version=2)": [3, 0, 0, 0x80, None],
        "links(0)": [1] * 18,
        "p2p(0)": [None, 0, 0, 0, 0, 0, 0, 0],
        "fields(0, (164, 0), 90, 91, 230, 193, 194)": [53125, 53125, 18, 0, -5, -3],
        "fields(0, (214, 3), (220, 3), (222, 3))": [0, 0xFFF, 0xFFF],
    }
    answers = ask(library, conf, *expected)
    assert dict(zip(expected, answers[1:], strict=True)) == expected


def test_module_ids_follow_the_captures_scrambled_order(library: Path, tmp_path: Path) -> None:
    conf = write_conf(tmp_path / "conf", facts())
    read = "[n.nvmlDeviceGetModuleId(handle(i), ctypes.c_uint()) for i in range(8)]"
    platform = (
        "[(s := n.c_nvmlPlatformInfo_v2_t(), n.nvmlDeviceGetPlatformInfo(handle(1), "
        "ctypes.byref(s)), ord(s.moduleId), ord(s.peerType), ord(s.hostId))][0][2:]"
    )
    assert ask(library, conf, read, platform)[1:] == [[6, 8, 7, 5, 2, 4, 3, 1], [8, 1, 1]]


def test_what_a_real_b200_does_not_support_is_not_supported_here(
    library: Path, tmp_path: Path
) -> None:
    conf = write_conf(tmp_path / "conf", facts())
    refused = {
        "n.nvmlDeviceGetNumaNodeId(handle(0))": "error 3",
        "n.nvmlDeviceGetRetiredPages(handle(0), 0)": "error 3",
        "n.nvmlDeviceGetNvLinkErrorCounter(handle(0), 0, 0)": "error 3",
        "n.nvmlDeviceGetNvLinkState(handle(0), 18)": "error 2",
        "fields(0, (161, 0), (162, 0), (163, 0), 9999)": ["error 3"] * 4,
        "fabric_with_word(0x1000024)": "error 25",
        "n.nvmlDeviceGetFanSpeed(handle(0))": "error 13",
        "n.nvmlDeviceGetHandleByIndex(8)": "error 2",
    }
    assert ask(library, conf, *refused)[1:] == list(refused.values())


def test_driver_is_not_loaded_before_the_reboot(library: Path, tmp_path: Path) -> None:
    conf = write_conf(tmp_path / "conf", facts(), kernel=None)
    assert ask(library, conf, "n.nvmlDeviceGetCount()") == ["error 9", "error 1"]


def test_library_newer_than_the_loaded_driver_is_a_mismatch(library: Path, tmp_path: Path) -> None:
    conf = write_conf(tmp_path / "conf", facts(), kernel="580.105.08")
    assert ask(library, conf) == ["error 18"]


def test_fabric_is_in_progress_until_the_fabric_manager_is_done(
    library: Path, tmp_path: Path
) -> None:
    conf = write_conf(tmp_path / "conf", facts(), fabric_done=False)
    answers = ask(library, conf, "fabric(0)", "links(0)", "p2p(0)")
    assert answers[1:] == [[2, 0, 0, 0, 0], [1] * 18, [None, 5, 5, 5, 5, 5, 5, 5]]


def test_any_call_can_answer_an_error(library: Path, tmp_path: Path) -> None:
    lines = "gpu.2.refuse.nvmlDeviceGetFieldValues=16\nrefuse.nvmlSystemGetDriverVersion=4"
    conf = write_conf(tmp_path / "conf", facts(), lines=lines)
    asked = ("fields(2, 230)", "fields(1, 230)", "links(2)", "n.nvmlSystemGetDriverVersion()")
    assert ask(library, conf, *asked)[1:] == ["error 16", [0], [1] * 18, "error 4"]


@in_subtests(
    "line", ["hang.nvmlDeviceGetCount_v2=1", "gpu.3.hang.nvmlDeviceGetUUID=1", "hang.nvmlInit=1"]
)
def test_call_that_hangs_never_returns(library: Path, tmp_path: Path, line: str) -> None:
    conf = write_conf(tmp_path / "conf", facts(), lines=line)
    script = (
        "import signal, pynvml as n\n"
        "signal.setitimer(signal.ITIMER_REAL, 0.2)\n"
        "n.nvmlInit(); n.nvmlDeviceGetCount()\n"
        "n.nvmlDeviceGetUUID(n.nvmlDeviceGetHandleByIndex(3))\n"
    )
    assert start(library, conf, "-c", script).returncode == -signal.SIGALRM


def test_later_fault_shows_from_its_second_on(library: Path, tmp_path: Path) -> None:
    lines = "@1 gpu.0.field.230=2\n@99999999999 gpu.1.field.230=2"
    conf = write_conf(tmp_path / "conf", facts(), lines=lines)
    assert ask(library, conf, "fields(0, 230)", "fields(1, 230)")[1:] == [[2], [0]]


def test_gpu_is_found_by_the_address_sysfs_uses(library: Path, tmp_path: Path) -> None:
    conf = write_conf(tmp_path / "conf", facts())
    by_address = "n.nvmlDeviceGetIndex(n.nvmlDeviceGetHandleByPciBusId(b'0000:9d:00.0'))"
    by_uuid = "n.nvmlDeviceGetIndex(n.nvmlDeviceGetHandleByUUID(n.nvmlDeviceGetUUID(handle(6))))"
    assert ask(library, conf, by_address, by_uuid)[1:] == [4, 6]


def test_events_can_be_waited_for_and_none_comes(library: Path, tmp_path: Path) -> None:
    conf = write_conf(tmp_path / "conf", facts())
    wait = (
        "(s := n.nvmlEventSetCreate(), n.nvmlDeviceRegisterEvents(handle(0), 8, s), "
        "n.nvmlEventSetWait_v2(s, 1))"
    )
    assert ask(library, conf, wait)[1] == "error 10"
