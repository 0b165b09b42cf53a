"""Runs that wait long are put away: they hold no task and no thread until what they wait for has come.

``waits.py`` knows which branches of a run wait, ``parker.py`` puts the run away when all of them do, ``wakes.py`` finds
those whose wait is over. What a run needs to go on is its record, so nothing else is kept.
"""

from holdfast.workflows.parking.parker import PUT_AWAY_AFTER, Parker
from holdfast.workflows.parking.waits import Awaited, Parts, Wait, Waits
from holdfast.workflows.parking.wakes import Wakes
from holdfast.workflows.queries import parking_queries

__all__ = ["PUT_AWAY_AFTER", "Awaited", "Parker", "Parts", "Wait", "Waits", "Wakes", "parking_queries"]
