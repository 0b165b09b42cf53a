"""Who is gone is decided by watching beats on one's own clock."""

from __future__ import annotations

from holdfast.core.liveness import Beat, Watch

LEASE = 10.0
GAP = 7.0


def _look(watch: Watch, now: float, **sequences: int) -> list[str]:
    beats = [Beat(name, sequence, LEASE) for name, sequence in sequences.items()]
    return [beat.incarnation for beat in watch.look(beats, now, longest_gap=GAP)]


def test_executor_that_does_not_beat_for_its_lease_is_gone() -> None:
    watch = Watch()
    assert [_look(watch, now, a=5) for now in (0.0, 3.3, 6.6, 9.9)] == [[]] * 4
    assert _look(watch, 10.0, a=5) == ["a"]


def test_executor_that_beats_however_slowly_is_not_gone() -> None:
    watch = Watch()
    for turn in range(30):
        assert _look(watch, turn * 5.0, a=turn // 2) == []


def test_first_sight_is_no_evidence() -> None:
    watch = Watch()
    _look(watch, 1000.0, a=1)
    assert _look(watch, 1005.0, a=1, b=7) == []
    assert _look(watch, 1010.0, a=1, b=7) == ["a"]


def test_own_gap_makes_everything_seen_before_worthless() -> None:
    watch = Watch()
    _look(watch, 0.0, a=1)
    _look(watch, 5.0, a=1)
    assert _look(watch, 50.0, a=1) == []
    assert _look(watch, 56.0, a=1) == []
    assert _look(watch, 60.0, a=1) == ["a"]


def test_beat_that_went_back_counts_as_a_beat() -> None:
    watch = Watch()
    _look(watch, 0.0, a=9)
    _look(watch, 6.0, a=3)
    assert _look(watch, 12.0, a=3) == []
    assert _look(watch, 16.0, a=3) == ["a"]


def test_forgetting_begins_anew() -> None:
    watch = Watch()
    _look(watch, 0.0, a=1)
    watch.forget()
    _look(watch, 5.0, a=1)
    assert _look(watch, 11.0, a=1) == []


def test_slow_answer_shortens_nobodys_lease() -> None:
    watch = Watch()
    beat = [Beat("a", 1, LEASE)]
    assert watch.look(beat, 0.0, answered=4.0, longest_gap=GAP) == []
    assert watch.look(beat, 6.0, answered=6.0, longest_gap=GAP) == []
    assert watch.look(beat, 12.0, answered=12.0, longest_gap=GAP) == []
    assert watch.look(beat, 14.0, answered=14.0, longest_gap=GAP) == beat


def test_who_is_not_in_the_table_is_forgotten() -> None:
    watch = Watch()
    _look(watch, 0.0, a=1)
    _look(watch, 5.0)
    _look(watch, 9.0, a=1)
    assert _look(watch, 15.0, a=1) == []
