"""The time that a board may take: a share of all time, and what a look into a step is estimated to take of it.

`Allowance` counts time that was spent. `Looks` has one for the graphs of steps: it says how many records and events the
next look may take apart, from what the last ones took; where a step has more, they are counted, and the next look waits
until there is time for all of them.
"""

from __future__ import annotations

import math
import time

FIRST_LOOK_SECONDS = 1.0  # that the first look into a step may take, whatever the share
SECONDS_A_RECORD, SECONDS_AN_EVENT = 25e-6, 25e-6  # to take one apart, until a look has been timed
LEAST_TIMED = 256  # records or events, whose time says what one takes


class Allowance:
    """A share of all time since it was made, and what has been spent of it.

    Args:
        share: the share; 1: all that is asked for.
        ahead: seconds that there are from the start.
    """

    def __init__(self, share: float, ahead: float = 0.0) -> None:
        self.share, self.ahead = share, ahead
        self.spent = 0.0
        self._began = time.perf_counter()

    def room(self) -> float:
        """The seconds that are left."""
        if self.share >= 1:
            return math.inf
        return self.ahead + self.share * (time.perf_counter() - self._began) - self.spent

    def forget_rest(self) -> None:
        """Of what there was ahead, leave what has been spent."""
        self.ahead = min(self.ahead, self.spent)

    def is_left(self) -> bool:
        """True if less than the share has been spent."""
        return self.room() >= 0

    def charge(self, began: float) -> None:
        """Count the time since then as spent."""
        self.spent += time.perf_counter() - began


class Price:
    """The seconds that one of many things takes, from the last time that many were timed."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def note(self, seconds: float, count: int) -> None:
        """So many took so long."""
        if count >= LEAST_TIMED:
            self.seconds = seconds / count

    def bought_for(self, seconds: float, most: int) -> int:
        """The number of things that there is time for."""
        return most if math.isinf(seconds) else min(max(int(seconds / self.seconds), 0), most)


class Looks:
    """The allowance of looks into steps.

    Args:
        share: the share of all time that they may take; 1: all that they need.
    """

    def __init__(self, share: float) -> None:
        self.allowance = Allowance(share, FIRST_LOOK_SECONDS)
        self.record, self.event = Price(SECONDS_A_RECORD), Price(SECONDS_AN_EVENT)
        self._none_yet = True
        self._wanted = 0.0  # seconds that the next one needs to take all apart

    def is_due(self) -> bool:
        """True if there is time for the next look; the first one has what there is from the start."""
        return self._none_yet or self.allowance.room() >= self._wanted

    def most(self, most_records: int, most_events: int) -> tuple[int, int]:
        """The records and events that the look which begins now may take apart: half of the time for each."""
        self._none_yet = False
        half = self.allowance.room() / 2
        return (
            self.record.bought_for(half, most_records),
            self.event.bought_for(half, most_events),
        )

    def note_step(self, records: int, events: int, event_limit: int) -> None:
        """The last step had so many records and events, of which no more were recorded than a limit."""
        self.allowance.forget_rest()  # it was for the first look
        events *= (
            2 if events >= event_limit else 1
        )  # there may be many more: they are asked for in steps
        self._wanted = 2 * max(records * self.record.seconds, events * self.event.seconds)
