"""How often an outage is told."""

from __future__ import annotations

import itertools

from holdfast.core.outage import Outage


def test_outage_is_told_at_once_and_then_ever_more_rarely() -> None:
    outage = Outage()
    told = [second for second in range(3600) if outage.is_told(100.0 + second)]
    assert told[:6] == [0, 1, 2, 4, 8, 16]
    assert len(told) < 20
    assert max(after - before for before, after in itertools.pairwise(told)) <= 600


def test_next_outage_is_told_at_once() -> None:
    outage = Outage()
    assert outage.is_told(5.0)
    assert not outage.is_told(5.5)
    outage.is_over()
    assert outage.is_told(5.6)
