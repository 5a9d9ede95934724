"""How TensorFlow averages a gradient over the workers of a team."""

from __future__ import annotations

from typing import Any, Callable, Dict, Sequence, Tuple

from rldyno_rig.team import host
from rldyno_rig.team.team import HOST, Reduce, Team

Put = Callable[..., Sequence[Any]]


def averaging(team: Team, put: Put) -> Tuple[Reduce, str]:
    """The team's reduction of a tensor, and what carries it. Raises TeamError."""
    return _AVERAGING[team.collective](team, put)


def _on_host(team: Team, put: Put) -> Tuple[Reduce, str]:
    reduce = host.averaging(team.rank, team.size)

    def average(gradient: Any) -> Any:
        return put(reduce(gradient.numpy()))[0]

    return average, host.MEANS


_AVERAGING: Dict[str, Callable[[Team, Put], Tuple[Reduce, str]]] = {HOST: _on_host}
