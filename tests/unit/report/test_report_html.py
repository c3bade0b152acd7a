"""The page: well formed, self-contained, safe against hostile text, honest about gaps."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from b200kit.node.checks.judge import judge
from b200kit.node.lib.documents import unstructure
from b200kit.report.content.readings import reported
from b200kit.report.content.verdict import each_once, groups_of, verdict_of
from b200kit.report.html.page import render
from tests.messages import assert_message
from tests.unit import states
from tests.unit.report import pages, records
from tests.unit.report.pages import Page, classes, page


def test_the_page_is_well_formed_and_every_link_has_its_target() -> None:
    found = Page(render(records.fleet()))
    assert found.open == []
    targets = [v.removeprefix("#") for _, name, v in found.attributes if name == "href"]
    assert targets == found.ids
    assert len(found.ids) == len(set(found.ids)) == 7


def test_the_page_needs_no_network_no_script_and_no_other_file() -> None:
    text = render(records.fleet())
    found = Page(text)
    outside = [(t, n, v) for t, n, v in found.attributes if n in {"src", "href"} and v[0] != "#"]
    assert outside == []
    assert not {"script", "link", "img", "iframe", "object"} & set(found.tags)
    assert not re.search(r"url\(|@import|https?://", text)


def poison_names(document: dict[str, Any], bad: str) -> dict[str, Any]:
    """Return a tuning document that still draws, with hostile names of loads and layouts."""
    for entry in [*document["cells"], *document["knees"], document["chosen"]]:
        entry["layout"] = {**entry["layout"], "name": bad, "more": bad}
        entry["workload"] = bad
    return document


def test_hostile_text_stays_text_wherever_it_stands() -> None:
    bad = '<script>alert("x")</script>\'"><img src=x onerror=y>'

    def poison(value: Any) -> Any:
        if isinstance(value, dict):
            return {k: poison(v) for k, v in value.items()}
        if isinstance(value, list):
            return [poison(v) for v in value]
        return bad if isinstance(value, str) else value

    every = records.live(smoke=records.smoke() | {"requests": pages.requests(failed=(3,))},
                         tuning=pages.tuning(), reprovision=pages.reprovisioned())  # fmt: skip
    record = records.record(n01=poison(records.red()), n02=poison(every))
    for host in ("n01", "n02"):
        record["hosts"][host]["tuning"] = poison_names(pages.tuning(), bad)
    record["hosts"][bad] = record["hosts"].pop("n01")
    record["hosts"]["layout"] = records.live(layout=[{"replica": bad, "gpus": [bad]}])
    found = Page(render(record))
    assert not {"script", "img"} & set(found.tags)
    assert not [n for _, n, _ in found.attributes if n.startswith("on")]
    assert bad in found.text


def test_the_machine_draws_a_line_for_each_link() -> None:
    counted = classes(page(n02=records.red()))
    assert counted["link up"] == 7 * 18
    assert counted["link down"] == 18
    assert counted["numa"] == 2


def test_head_says_what_ran_on_what_when_and_whether_it_was_simulated() -> None:
    record = records.record(n=records.red())
    text = Page(render(record)).text
    assert "b200 deploy on inventories/prod.py" in text
    assert "2026-11-21 09:40:12Z" in text
    assert "SIMULATED" not in text
    assert "b200 deploy $(cat reports/20261121-094012/failed.txt)" in text
    typed = ["python", "-m", "pyinfra", "/s/inventories/lab.py", "/v/entries/b200.py", "-y"]
    front = Page(render({**record, "argv": typed})).text
    assert "b200 deploy on inventories/lab.py" in front
    assert "b200 deploy -i /s/inventories/lab.py $(cat" in front
    assert "SIMULATED" in Page(render({**record, "simulated": True})).text


def test_links_up_on_an_unfinished_fabric_are_not_drawn_as_good() -> None:
    state = records.state([records.gpu(i, fabric=2) for i in range(8)])
    counted = classes(page(n=records.live(state=state)))
    assert counted["link up"] == 0
    assert counted["link waiting"] == 144


@pytest.mark.parametrize(
    ("numa_of", "boxes"),
    [((0, 0, 0, 0, 1, 1, 1, 1), 2), ((0, 0, 1, 1, 2, 2, 3, 3), 4), ((0, 0, 2, 2, 3, 3, 5, 5), 6)],
)
def test_every_numa_node_has_its_box_with_or_without_gpus(
    numa_of: tuple[int, ...], boxes: int
) -> None:
    found = page(n=records.live(state=records.state(numa_of=numa_of)))
    assert classes(found)["numa"] == boxes
    assert classes(found)["tile ghost"] == boxes - len(set(numa_of))


def test_a_gpu_that_is_not_seen_is_drawn_by_its_module() -> None:
    host = records.live(state=records.state([records.gpu(i) for i in range(7)]))
    found = page(n=host)
    assert classes(found)["tile ghost bad"] == 1
    assert "7 of 8 GPUs: 7x NVIDIA B200" in found.text
    assert "Missingexpected, not foundno GPUmodule 1by elimination" in found.text


def test_gpus_that_only_the_pci_tree_shows_are_drawn_unmeasured() -> None:
    found = page(n=records.unmeasured())
    assert classes(found)["link unknown"] == 8 * 18
    assert found.text.count("not in NVML") == 8


def test_the_p2p_matrix_marks_the_pairs_that_do_not_talk() -> None:
    found = page(n=judged(states.recorded("gpu2-no-nvlink")))
    assert len([v for t, n, v in found.attributes if (t, n, v) == ("td", "class", "bad")]) == 14


def test_findings_that_block_come_first_and_name_the_part() -> None:
    text = page(n=records.red()).text
    assert text.index("nvlink.links") < text.index("60 passed") < text.index("check.0")
    assert "if it returns, replace GPU 2 (module 7, PCI 0000:52:00.0" in text


def test_every_latency_shows_its_formula() -> None:
    text = page(n=records.live()).text
    assert all(formula in text for formula in records.FORMULAS.values())


def test_distributions_are_drawn_only_from_the_requests_own_times() -> None:
    assert classes(page(n=records.live()))["chart"] == 2
    without = page(n=records.live(smoke=records.smoke(arrays=False)))
    assert classes(without)["chart"] == 0
    assert "No distribution" in without.text


def test_a_stand_in_is_marked_at_every_table_and_figure() -> None:
    text = page(n=records.live(smoke=records.smoke(stand_in=True))).text
    assert text.count("STAND-IN ENGINE") >= 7
    assert "STAND-IN" not in page(n=records.live()).text


def test_the_top_says_why_each_host_is_not_ready() -> None:
    text = Page(render(records.fleet())).text
    top = text[: text.index("Machine")]
    for cause in ("GPU 2 has no NVLink", "no route to 10.77.0.13", "Driver Not Loaded (9)"):
        assert cause in top


def test_an_old_result_shows_its_age() -> None:
    assert "measured 2 h 1 m ago" in page(n=records.live(smoke_age_s=7260)).text


def test_a_host_of_which_nothing_is_known_has_its_section() -> None:
    found = Page(render({"hosts": {"n1": None, "n2": {"state": {"unmeasured": "timed out"}}}}))
    assert found.ids == ["host-0", "host-1"]
    assert "UNKNOWN" in found.text


def seen(spoil: Callable[[Any], object] = lambda state: None) -> Page:
    """Return the page of a recorded node after a fault."""
    state = states.healthy()
    spoil(state)
    return page(n=judged(state))


@pytest.mark.parametrize(("gpus", "numa_of"), [(1, (0,)), (8, None)])
def test_the_machine_never_grows_beyond_its_natural_size(gpus: int, numa_of: Any) -> None:
    state = records.state([records.gpu(i) for i in range(gpus)], numa_of=numa_of)
    text = render(records.record(n=records.live(state=state)))
    (picture,) = re.findall(
        r'<svg viewBox="0 0 (\d+) [^>]*class="machine"[^>]*max-width:(\d+)px', text
    )
    assert picture[0] == picture[1]


def test_the_machine_draws_switches_and_data_nics_and_the_management_ones_at_the_fabric() -> None:
    counted = classes(seen())
    assert (counted["pcie good"], counted["lane good"]) == (4, 8)
    assert (counted["nic"], counted["nic manager"]) == (8, 4)


def test_a_narrow_switch_and_a_narrow_gpu_are_drawn_bad() -> None:
    def spoil(state: Any) -> None:
        state["pci"]["gpus"][0]["bridges"][1]["current_link_width"] = 8
        state["gpus"][6]["pcie"]["width"] = 8

    found = seen(spoil)
    assert (classes(found)["pcie bad"], classes(found)["lane bad"]) == (1, 1)
    assert "gen5 x8" in found.text


def test_all_that_was_observed_is_told_with_the_reason_where_it_was_not_read() -> None:
    def spoil(state: Any) -> None:
        state["kernel"]["memlock_bytes"] = {"unmeasured": "no PID 1"}
        state["gpus"][3]["links"][7]["state"] = 0

    state = states.healthy()
    spoil(state)
    parts = dict(reported({"state": state}))
    assert "memlock_bytes unmeasured: no PID 1" in parts["kernel"]
    assert "state 1 on 143, 0 on 1" in parts["gpus.links"]
    assert parts["kernel"] in seen(spoil).text


def judged(state: dict[str, Any]) -> dict[str, Any]:
    """The record of a host that was judged by this state."""
    verdict = judge(states.expectation(), state)
    return (
        records.live()
        | {"outcome": verdict.fit, "state": state, "verdict": unstructure(verdict)}
        | {"expectation": states.expectation()}
    )


def test_what_was_not_read_for_one_reason_is_told_once() -> None:
    state = states.healthy()
    gone = {"unmeasured": "GPU is lost (15)"}
    state["gpus"][5] = {**dict.fromkeys(state["gpus"][5], gone), "index": 5}
    for gpu in state["gpus"][:3]:
        for link in gpu["links"]:
            del link["state"]
    host = judged(state)
    text = page(n01=host).text
    assert text.count("could not be read: GPU is lost (15)") == 1
    assert text.count("links[*].state could not be read") == 1
    assert_message(*(s.also for group in groups_of(verdict_of(host)) for s in group if s.also))


def test_nothing_but_what_passed_has_the_colour_of_good() -> None:
    found = [records.finding(word, word) for word in ("fail", "unmeasured", "waived")]
    counted = classes(page(n=records.live(verdict=records.verdict(*found))))
    assert [counted[f"badge {tone}"] for tone in ("bad", "unknown", "waived")] == [1, 1, 1]


def test_subject_with_many_findings_of_one_reason_is_named_once() -> None:
    one, other = ({"status": "unmeasured", "check": "c", "subject": s} for s in ("GPU 5", "GPU 6"))
    assert_message(
        *(
            similar.also
            for entries in ([one] * 4, [one, other, other, one])
            for similar in each_once(
                verdict_of({"verdict": {"findings": [e | {"read": "lost"} for e in entries]}})
            )
        )
    )


def test_each_fault_is_told_by_itself_with_its_part() -> None:
    state = states.healthy()
    for gpu in state["gpus"][:3]:
        gpu["ecc"] = False
    text = page(n01=judged(state)).text
    for gpu in state["gpus"][:3]:
        assert gpu["serial"] in text
