"""Every known way in which a B200 node fails, and that a NodeState can show, has a case.

A case names what it covers by tags. Which reports the rows are from stands beside them; a row that
no observation can show is listed with the reason, so that nothing is left out in silence.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from b200kit.catalog import load
from b200kit.node.checks.judge import judge, registered
from b200kit.node.checks.nvlink import fabric
from b200kit.node.state.verdict import Action, Verdict
from b200kit.node.state.view import StateView
from tests.subtests import in_subtests
from tests.unit import corpus
from tests.unit.case import Case, Wanted

CATALOGUE = {
    "fabric-in-progress-802": "CUDA 802 with nvidia-smi fine: the fabric is in progress"
    " (gpu-operator#2781, siderolabs/extensions#717)",
    "fm-nothing-to-do": "the fabric manager sees no NVSwitch as nvlsm or ib_umad is missing"
    " (siderolabs/extensions#893, CanvOS#700)",
    "fm-version-skew": "the fabric manager is of another version than the driver"
    " (gpu-operator#544)",
    "fm-topology-mismatch": "the fabric manager aborts: NVSwitches fit no known topology (gpud)",
    "fm-shared-mode": "FABRIC_MODE 1 waits for a partition (gpu-driver-container#909)",
    "fm-died": "the daemon died, the fabric still reads as well (NVSentinel#889, #1380)",
    "fabric-insufficient-resources": "completed without success (azhpc-images#506)",
    "fabric-unhealthy": "completed with success, and unhealthy (dra-driver#626)",
    "p2p-disabled": "P2P is not OK between GPUs with links up (nccl#2329)",
    "no-nvlink-after-boot": "no GPU has NVLink after a boot (azhpc-images#443)",
    "topo-node-sys": "one GPU is NODE or SYS to all others (vllm#16336)",
    "links-inactive-149": "all links of a GPU are inactive, Xid 149 (open-gpu-kernel-modules#1150)",
    "fabric-wide-145": "Xid 145 on all GPUs (open-gpu-kernel-modules#1355)",
    "link-recoveries": "recoveries of a link before its Xid 149 (marin#8934)",
    "gsp-boot-failed": "WPR2 already up, RmInitAdapter failed: a GPU that NVML does not list"
    " (open-gpu-kernel-modules#1230, #1104)",
    "recovery-action": "the driver asks for a reset, reboot or drain (nvml.h field 230)",
    "library-mismatch": "driver upgraded and not rebooted: NVML 18 (nvml.h)",
    "nvlink-disabled": "NvLinkDisable or fewer links by a module option (nv-reg.h)",
    "container-nvml-unknown-error": "a container that a daemon-reload takes the GPUs from"
    " (nvidia-container-toolkit#48)",
    "vm-flat-topology": "no bridge above a guest's GPU: cuInit fails (Ubicloud)",
    "numa-cpu-less": "NUMA nodes without GPU, CPUs or memory (sglang#40055, numactl#165)",
}
"""Rows of the failure catalogue that a state can show, each of which needs a case."""

CATALOGUE_BEYOND_A_STATE = {
    "nvls-multicast-401": "a symptom in NCCL; its cause is fabric-in-progress-802",
    "container-cgroup": "seen in the container alone",
}

DEFECTS = {
    1: "a fault without its action (oci-hpc recommended_action)",
    3: "the PCI id of an H100 taken for a B200; a failed remap that is not reported (oci-hpc)",
    4: "512 remapped rows and mixed VBIOS pass (azurehpc-health-checks)",
    5: "a bandwidth gate that can only warn (awsome-distributed-training)",
    6: "neither fabric manager nor nvlsm installed (deepops)",
    8: "what is not supported passes (soperator)",
    9: "unknown is ordered below OK and is lost (gcm)",
    10: "a check that is skipped passes (aicr#1337)",
    11: "the fabric state of a B200 is never read (gpud)",
    12: "clique 0, cluster UUID 0 and mask 0xAA are healthy (azhpc-images#506, nccl#2186)",
    13: "a B200 at PCIe generation 3 passes (DCGM diag-skus)",
    14: "counters that are not there count as no errors (nvidia-resiliency-ext#302)",
    15: "management functions of the NVSwitches are no NICs (siderolabs/extensions#893)",
}
"""Defects of other checkers that a state can show."""

DEFECTS_BEYOND_A_STATE = {
    2: "a burn-in that never runs: no reading of a node",
    7: "a test that asserts true: each check is removed once, below",
}

XIDS = {
    "application": (13, 31, 43, 45, 69, 94),
    "memory": (48, 63, 64, 92, 95, 140, 156, 171, 172),
    "bus and GSP": (79, 109, 110, 119, 120, 143, 158, 167, 176),
    "NVLink": (74, 136, 137, 144, 145, 146, 147, 148, 149, 150, 154, 155),
}
"""Xid codes of a B200 by class; 93 is for Volta alone."""

MASKS = [field.name.replace(" ", "-") for field in fabric.FIELDS]

REQUIRED = {
    *(f"catalogue:{row}" for row in CATALOGUE),
    *(f"defect:{number}" for number in DEFECTS),
    *(f"xid:{code}" for codes in XIDS.values() for code in codes),
    *(f"mask:{name}" for name in MASKS),
}


def covering(tag: str) -> list[Case]:
    """The cases that name a tag."""
    return [case for case in corpus.cases() if tag in case.covers]


@in_subtests("tag", sorted(REQUIRED))
def test_what_is_known_to_happen_has_a_case(tag: str) -> None:
    assert covering(tag) != []


def test_no_case_names_a_tag_that_nobody_asks_for() -> None:
    wrong = {tag: case.id for case in corpus.cases() for tag in case.covers if tag not in REQUIRED}
    assert wrong == {}


def test_all_fifteen_defects_are_accounted_for() -> None:
    assert sorted({*DEFECTS, *DEFECTS_BEYOND_A_STATE}) == list(range(1, 16))
    assert not CATALOGUE.keys() & CATALOGUE_BEYOND_A_STATE.keys()


def test_every_setting_has_a_case_in_which_it_is_off() -> None:
    off = {
        wanted.subject for case in corpus.cases() if case.fit == "unfit" for wanted in case.findings
    }
    settings = load.load().settings.items()
    judged = {f"setting {name}" for name, setting in settings if not setting.judged_by}
    assert judged - off == set()


@in_subtests("case", lambda: [c for c in corpus.cases() if c.covers], ids=lambda case: case.id)
def test_a_case_shows_the_codes_and_masks_that_it_names(case: Case) -> None:
    view = StateView(case.state())
    codes = {f"xid:{entry.reading('code')}" for entry in view.known_items("xids")}
    assert {tag for tag in case.covers if tag.startswith("xid:")} <= codes
    masks = [gpu.known(int, "fabric", "health_mask") or 0 for gpu in view.known_gpus]
    faults = " ".join(fault for mask in masks for fault in fabric.mask_faults(mask, ()))
    named = [tag.split(":")[1] for tag in case.covers if tag.startswith("mask:")]
    assert [name for name in named if name.replace("-", " ") not in faults] == []


def alone() -> list[Case]:
    """Cases in which one check alone keeps the node from going live."""
    return [case for case in corpus.cases() if case.alone]


def without(case: Case, checks: Collection[str]) -> Verdict:
    """The verdict of a case by all checks but some: what is left of that by all of them."""
    whole = corpus.verdict_of(case.name)
    return replace(whole, findings=tuple(f for f in whole.findings if f.check not in checks))


def still_reported(verdict: Verdict, wanted: Wanted) -> list[str]:
    """Findings of other checks that tell the cause, or ask for the same where it has no words."""
    return [
        f"{finding.check}: {finding.summary}"
        for finding in verdict.findings
        if (finding.blocks or finding.action is not Action.NONE)
        and (wanted.says or wanted.action == finding.action.word)
        and wanted.subject in ("", finding.subject)
        and wanted.tells(finding)
    ]


def proves(case: Case, check: str) -> bool:
    """Whether a case needs a check: to be blocked, or for a cause that nothing else tells."""
    if case.alone:
        return True  # what the test above shows
    verdict = without(case, {check})
    return any(
        not still_reported(verdict, wanted) for wanted in case.findings if wanted.check == check
    )


def first_of_each_file() -> list[Case]:
    """One such case of each file."""
    return list({case.file: case for case in reversed(alone())}.values())


@in_subtests("case", first_of_each_file, ids=lambda case: case.id)
def test_no_check_depends_on_whether_another_is_there(case: Case) -> None:
    """What the two tests below rest on: they leave findings out instead of judging again."""
    named = {wanted.check for wanted in case.findings}
    kept = {name: run for name, run in registered().items() if name not in named}
    again = judge(case.expectation(), case.state(), kept)
    assert again.findings == without(case, named).findings


@in_subtests("case", alone, ids=lambda case: case.id)
def test_without_its_check_the_faulty_node_would_pass(case: Case) -> None:
    verdict = without(case, {wanted.check for wanted in case.findings})
    assert verdict.fit == "fit", [f"{f.check}: {f.summary}" for f in verdict.blocking]


@in_subtests("check", registered)
def test_every_check_has_a_case_that_needs_it(check: str) -> None:
    naming = [c for c in corpus.cases() if check in {wanted.check for wanted in c.findings}]
    assert naming, f"no case of tests/corpus names {check}"
    assert any(proves(case, check) for case in sorted(naming, key=lambda c: not c.alone))
