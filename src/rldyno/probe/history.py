"""The resident set of a process tree over time, in a bounded amount of memory."""

from __future__ import annotations

from array import array

_REMEMBERED = 12_000
"""Samples kept: ten minutes at 20 Hz in full, longer trials at half the rate, a quarter, and so on."""
_NEAR_NS = 100_000_000


class History:
    """The resident set of a trial over time, thinned evenly so that any length fits."""

    def __init__(self, remembered: int = _REMEMBERED) -> None:
        self.times_ns, self.rss = array("q"), array("q")
        self.uss: list[tuple[int, int]] = []
        self._remembered = remembered
        self._seen, self._every = 0, 1

    def add(self, time_ns: int, rss_bytes: int) -> None:
        if self._seen % self._every == 0:
            self.times_ns.append(time_ns)
            self.rss.append(rss_bytes)
            if len(self.rss) >= self._remembered:
                self.times_ns, self.rss = self.times_ns[::2], self.rss[::2]
                self._every *= 2
        self._seen += 1

    def add_uss(self, time_ns: int, uss_bytes: float | None) -> None:
        if uss_bytes is not None:
            self.uss.append((time_ns, int(uss_bytes)))

    def nearest(self, time_ns: int) -> int | None:
        """The sample nearest to a time; None if none was taken within a tenth of a second of it."""
        at = min(self.times_ns, key=lambda taken: abs(taken - time_ns), default=None)
        if at is None or abs(at - time_ns) > _NEAR_NS:
            return None
        return self.rss[self.times_ns.index(at)]

    def between(self, start_ns: float, end_ns: float) -> tuple[list[float], list[int]]:
        """(seconds, bytes) of the samples from one time to another."""
        kept = [
            (time / 1e9, rss)
            for time, rss in zip(self.times_ns, self.rss, strict=True)
            if start_ns <= time <= end_ns
        ]
        return [time for time, _ in kept], [rss for _, rss in kept]
