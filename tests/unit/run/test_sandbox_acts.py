"""Every sandbox line of a unit's template is asked on a simulated node whether it holds."""

from __future__ import annotations

from tests.e2e.tools import sandbox


def test_every_sandbox_line_has_an_act_or_says_what_it_is_for() -> None:
    lines = {line for lines in sandbox.templates().values() for line in lines}
    assert len(lines) > 50
    assert sorted(line.text for line in lines if not line.is_known) == []


def test_no_act_is_left_of_a_line_that_is_gone() -> None:
    lines = [line for lines in sandbox.templates().values() for line in lines]
    acts = {line.act for line in lines if line.act}
    known = {key for line in lines for key in (line.text, line.directive)}
    assert set(sandbox.FORBIDS) == acts
    assert set(sandbox.OTHERS) <= known


def test_line_of_no_kind_is_found() -> None:
    assert not sandbox.Line("ProtectSystem2", "yes").is_known
    assert not sandbox.Line("SystemCallFilter", "@other").is_known
