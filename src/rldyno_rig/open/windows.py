"""Transitions of n steps, found in a ring of single steps: what the open forms of DQN share.

The closed division stores a transition when its n steps are known or its episode has ended, environment by
environment. The ring has a row for each step, by time and then by environment, and each row says how many
steps up to it wait for their transition to be stored. So transition p was stored by the first row s ≥ p
after which no more than s − p steps waited.

`xp` is the framework's module, as in `tasks`. Numbers are integers.
"""

from __future__ import annotations

from typing import Any, Callable, NamedTuple, Tuple

GOES_ON, CUT_OFF, TERMINATED = 0, 1, 2
"""How a step ends."""


class Ring(NamedTuple):
    environments: int
    n_step: int
    capacity: int
    """Transitions."""
    steps: int
    """Of each environment."""

    @property
    def rows(self) -> int:
        return self.steps * self.environments

    @property
    def waits(self) -> int:
        """Rows that say how many steps wait: of single steps none does."""
        return self.rows if self.n_step > 1 else 0


def ring_of(hyper: Any) -> Ring:
    """For as many transitions as the closed division keeps."""
    count, n = hyper.environments, hyper.n_step
    if n == 1:
        blocks = max(1, hyper.capacity // count)
        return Ring(count, n, blocks * count, blocks)
    # Up to n − 1 steps of each environment wait, and as many lie before the last step of a transition.
    return Ring(count, n, hyper.capacity, -(-hyper.capacity // count) + 2 * n - 1)


def stored(xp: Any, ring: Ring, added: Any, waiting: Any, ended: Any, length: Any) -> Tuple[Any, Any, Any]:
    """A step of all environments: (transitions added, steps that wait, those that wait after each row).

    `length`: of each episode, this step included. `added` stays below twice the capacity: its remainder is
    the place of the next one.
    """
    if ring.n_step == 1:
        waits = 0 * length
        more = ring.environments
    else:
        n = ring.n_step
        ends = xp.where(length < n, length, n)
        goes_on = xp.where(length < n, 0 * length, 1)
        change = 1 - xp.where(ended, ends, goes_on)
        waits = waiting + (change if ring.environments == 1 else xp.cumsum(change, 0))
        more = ring.environments + waiting - waits[-1]
        waiting = waits[-1]
    added = added + more
    added = xp.where(added < 2 * ring.capacity, added, ring.capacity + added % ring.capacity)
    return added, waiting, waits


def size_of(xp: Any, ring: Ring, added: Any) -> Any:
    """Transitions in the memory."""
    return xp.where(added < ring.capacity, added, ring.capacity)


def window(
    xp: Any,
    ring: Ring,
    counts: Tuple[Any, Any, Any],
    place: Any,
    waits: Callable[[Any], Any],
    goes_on: Callable[[Any], Any],
) -> Tuple[Any, Any, Any]:
    """(row of the first step, row of the last step, steps) of the transitions at these places.

    `counts`: steps of each environment so far, transitions added, steps that wait now. `waits` and `goes_on`
    read the ring: the steps that waited after these rows, and whether the episodes go on there.
    """
    if ring.n_step == 1:
        return place, place, 1 + 0 * place
    at, added, waiting = counts
    end = at % ring.steps * ring.environments

    def row(back: Any) -> Any:
        """Counted back from the newest, which is 1."""
        return xp.where(end < back, end - back + ring.rows, end - back)

    most = (ring.n_step - 1) * ring.environments
    back = oldest = (added - 1 - place) % ring.capacity + 1 + waiting
    # The first row for which that holds, bit by bit. It holds for the newest.
    for bit in range(most.bit_length() - 1, -1, -1):
        tried = back - (1 << bit) + 1
        tried = xp.where(tried < 1, 1 + 0 * tried, tried)
        back = xp.where(oldest - tried < waits(row(tried)), back - (1 << bit), back)
    last = row(back)
    left = oldest - back + 1 - waits(last)
    # Where an episode ended, the transitions stored there are of fewer and fewer steps, down to one.
    steps = xp.where(goes_on(last), ring.n_step + 0 * back, left)
    return row(back + (steps - 1) * ring.environments), last, steps
