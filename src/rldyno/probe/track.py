"""Readings of one figure over a trial, in bounded memory: one entry a second, whatever the rate."""

from __future__ import annotations

import bisect
from array import array

_SECOND_NS = 1_000_000_000


class Track:
    """Mean, lowest and highest of a figure, from any whole second on: start-up can be left out afterwards."""

    def __init__(self) -> None:
        self._seconds, self._counts = array("q"), array("q")
        self._sums, self._lows, self._highs = array("d"), array("d"), array("d")

    def add(self, time_ns: int, value: float | None) -> None:
        """A reading; None is one that failed, and leaves no trace."""
        if value is None:
            return
        second = time_ns // _SECOND_NS
        if not self._seconds or self._seconds[-1] != second:
            self._seconds.append(second)
            self._counts.append(1)
            for kept in (self._sums, self._lows, self._highs):
                kept.append(value)
            return
        self._counts[-1] += 1
        self._sums[-1] += value
        self._lows[-1] = min(self._lows[-1], value)
        self._highs[-1] = max(self._highs[-1], value)

    def count(self, since_ns: int = 0) -> int:
        return sum(self._counts[self._first(since_ns) :])

    def mean(self, since_ns: int = 0) -> float | None:
        first = self._first(since_ns)
        count = sum(self._counts[first:])
        return sum(self._sums[first:]) / count if count else None

    def lowest(self, since_ns: int = 0) -> float | None:
        return min(self._lows[self._first(since_ns) :], default=None)

    def highest(self, since_ns: int = 0) -> float | None:
        return max(self._highs[self._first(since_ns) :], default=None)

    def share_above(self, limit: float, since_ns: int = 0) -> float | None:
        """Share of the seconds whose mean is above a limit."""
        first = self._first(since_ns)
        seconds = len(self._seconds) - first
        pairs = zip(self._sums[first:], self._counts[first:], strict=True)
        return sum(total / count > limit for total, count in pairs) / seconds if seconds else None

    def _first(self, since_ns: int) -> int:
        """The first second that begins at `since_ns` or later."""
        return bisect.bisect_left(self._seconds, -(-since_ns // _SECOND_NS))


class Meter:
    """A cumulative counter: its value at any moment, by a straight line between readings a second apart."""

    def __init__(self) -> None:
        self._times, self._values = array("q"), array("d")

    def add(self, time_ns: int, value: float) -> None:
        if len(self._times) > 1 and time_ns - self._times[-2] < _SECOND_NS:
            self._times[-1], self._values[-1] = time_ns, value
        else:
            self._times.append(time_ns)
            self._values.append(value)

    @property
    def last(self) -> float | None:
        return self._values[-1] if self._values else None

    def at(self, time_ns: int) -> float | None:
        """None outside the time that was watched."""
        after = bisect.bisect_left(self._times, time_ns)
        if after == len(self._times):
            return None
        if self._times[after] == time_ns:
            return self._values[after]
        if after == 0:
            return None
        begin, end = self._times[after - 1], self._times[after]
        share = (time_ns - begin) / (end - begin)
        return self._values[after - 1] + share * (self._values[after] - self._values[after - 1])
