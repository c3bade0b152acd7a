"""The NVLinks of one GPU: state, version, speed, errors, bit error rates.

What NVLink 5 counts is read by NVML field ids, all of one link in one call. The counters of older
links (fields 161-163, nvmlDeviceGetNvLinkErrorCounter) are gone from Blackwell on (nvml.h) and are
not asked for.
"""

from __future__ import annotations

from functools import partial

import pynvml as n  # type: ignore[import-untyped]

from b200kit.node.facts.nvml.call import Handle, Reading, link_fields, reading, words
from b200kit.node.lib.readings import unmeasured

FIELDS = {
    "speed_mbps": 164,
    "malformed_packets": 206,
    "buffer_overruns": 207,
    "receive_errors": 208,
    "receive_remote_errors": 209,
    "receive_general_errors": 210,
    "integrity_errors": 211,
    "transmit_discards": 212,
    "recovery_success": 213,
    "recovery_failed": 214,
    "recovery_events": 215,
    "effective_errors": 219,
    "effective_ber": 220,
    "symbol_errors": 221,
    "symbol_ber": 222,
}
"""Key of a link to its NVML field id. Speed in MB/s a direction; bit error rates raw (bits 0-7
exponent, 8-11 mantissa, 0xFFF no errors); the others are counts since the link trained."""
FEC_HISTORY = range(235, 251)
"""NVML field ids of the 16 bins: how often so many symbols of a block had to be corrected."""
END_OF_LINKS = (n.NVML_ERROR_NOT_SUPPORTED, n.NVML_ERROR_INVALID_ARGUMENT)


def links(handle: Handle) -> list[dict[str, Reading]]:
    """Every NVLink of a GPU; raises when it has none at all (a PCIe-only board)."""
    return [
        {"link": link, "state": state, **link_details(handle, link)}
        for link, state in link_states(handle)
    ]


def link_states(handle: Handle) -> list[tuple[int, Reading]]:
    """Links by number with their state, 1 up and 0 down, until NVML knows no more of them."""
    states: list[tuple[int, Reading]] = []
    for link in range(n.NVML_NVLINK_MAX_LINKS):
        try:
            states.append((link, n.nvmlDeviceGetNvLinkState(handle, link)))
        except n.NVMLError as error:
            if error.value in END_OF_LINKS:
                if not states:
                    raise
                break
            states.append((link, unmeasured(words(error))))
    return states


def link_details(handle: Handle, link: int) -> dict[str, Reading]:
    """Version, remote end and the NVML fields of one link."""
    values = link_fields(handle, link, (*FIELDS.values(), *FEC_HISTORY))
    return {
        "version": reading(partial(n.nvmlDeviceGetNvLinkVersion, handle, link)),
        "remote_type": reading(partial(n.nvmlDeviceGetNvLinkRemoteDeviceType, handle, link)),
        **dict(zip(FIELDS, values, strict=False)),
        "fec_history": values[len(FIELDS) :],
    }
