"""Readings of one figure over a trial, in bounded memory for any rate and length."""

from __future__ import annotations

import bisect
from array import array
from typing import NamedTuple

_SECOND_NS = 1_000_000_000
_FINEST_NS = 10_000_000
_KEPT = 8192


class Span(NamedTuple):
    """From one moment of a trial to another, in nanoseconds since the spawn."""

    start_ns: int = 0
    end_ns: int | None = None


EVER = Span()


class Track:
    """Mean, lowest and highest of a figure between any two moments: start-up can be left out afterwards.

    Readings are kept one by one. When there are too many, slots of time become twice as wide, so that what a
    moment is known to stays a small share of the trial.
    """

    def __init__(self, kept: int = _KEPT) -> None:
        self._kept = kept
        self._width_ns = _FINEST_NS
        self._slots, self._counts = array("q"), array("q")
        self._sums, self._lows, self._highs = array("d"), array("d"), array("d")

    def add(self, time_ns: int, value: float | None) -> None:
        """A reading; None is one that failed, and leaves no trace."""
        if value is None:
            return
        self._enter(time_ns // self._width_ns, 1, value, value, value)
        while len(self._slots) > self._kept:
            self._widen()

    def _enter(self, slot: int, count: int, total: float, low: float, high: float) -> None:
        if self._slots and self._slots[-1] == slot:
            self._counts[-1] += count
            self._sums[-1] += total
            self._lows[-1] = min(self._lows[-1], low)
            self._highs[-1] = max(self._highs[-1], high)
            return
        self._slots.append(slot)
        self._counts.append(count)
        self._sums.append(total)
        self._lows.append(low)
        self._highs.append(high)

    def _widen(self) -> None:
        kept = list(zip(self._slots, self._counts, self._sums, self._lows, self._highs, strict=True))
        self._width_ns *= 2
        for column in (self._slots, self._counts, self._sums, self._lows, self._highs):
            del column[:]
        for slot, count, total, low, high in kept:
            self._enter(slot // 2, count, total, low, high)

    def count(self, span: Span = EVER) -> int:
        return sum(self._counts[self._within(span)])

    def mean(self, span: Span = EVER) -> float | None:
        chosen = self._within(span)
        count = sum(self._counts[chosen])
        return sum(self._sums[chosen]) / count if count else None

    def lowest(self, span: Span = EVER) -> float | None:
        return min(self._lows[self._within(span)], default=None)

    def highest(self, span: Span = EVER) -> float | None:
        return max(self._highs[self._within(span)], default=None)

    def share_above(self, limit: float, span: Span = EVER) -> float | None:
        """Share of the readings above a limit; of those that share a slot the mean counts."""
        chosen = self._within(span)
        pairs = list(zip(self._sums[chosen], self._counts[chosen], strict=True))
        above = sum(count for total, count in pairs if total / count > limit)
        count = sum(count for _, count in pairs)
        return above / count if count else None

    def _within(self, span: Span) -> slice:
        """The slots that lie wholly in it."""
        first = bisect.bisect_left(self._slots, -(-span.start_ns // self._width_ns))
        if span.end_ns is None:
            return slice(first, None)
        return slice(first, bisect.bisect_right(self._slots, span.end_ns // self._width_ns - 1))


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
