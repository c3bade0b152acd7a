"""Who is blamed: a GPU that is whole is never the part to reset or to replace."""

from __future__ import annotations

import sys

from tests.subtests import in_subtests
from tests.unit import broken_parts


@in_subtests("number", range(broken_parts.FIXED), one_in=10)
def test_no_finding_names_a_healthy_gpu_as_the_part_at_fault(number: int) -> None:
    """Some GPUs of a fit state broken in some ways."""
    case = broken_parts.case(number)
    assert [*case.wrong()] == [], "; ".join(case.ways)


if __name__ == "__main__":
    # python -m tests.unit.node.state.test_blame 20000: as many as are asked for.
    cases = map(broken_parts.case, range(int(sys.argv[1])))
    told = [f"{c.number}: {'; '.join(c.ways)}: {found}" for c in cases if (found := [*c.wrong()])]
    sys.stdout.write("\n".join([*told, f"{len(told)} of {sys.argv[1]} blame who is whole\n"]))
