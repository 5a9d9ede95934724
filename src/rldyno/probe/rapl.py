"""Energy of the CPU packages, from the counters the kernel shows as powercap zones (Intel and AMD).

They count the whole package, for all processes together.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from rldyno.probe.energy_metrics import CPU_ENERGY
from rldyno.probe.metric import Value

_ZONES = Path("/sys/class/powercap")
_NOTHING = (
    f"no CPU energy counter ({_ZONES}/intel-rapl:*): the processor has none, or a virtual machine hides it"
)
_DENIED = (
    "only root may read the CPU's energy counter; to allow it: "
    f"sudo chmod a+r {_ZONES}/intel-rapl:*/energy_uj"
)
STANDS_STILL = (
    "the CPU's energy counter did not move during the trial: a virtual machine only pretends to have it"
)


class RaplReader:
    """Joules of all packages since it was opened."""

    def __init__(self, zones: Path = _ZONES) -> None:
        self.reasons: dict[str, str] = {}
        self._packages: list[_Package] = []
        if sys.platform != "linux":
            self.reasons[CPU_ENERGY] = "CPU energy is read on Linux only"
            return
        try:
            found = [zone for zone in sorted(zones.glob("intel-rapl:*")) if _is_package(zone)]
            self._packages = [_Package(zone) for zone in found]
        except PermissionError:
            self.reasons[CPU_ENERGY] = _DENIED
        except (OSError, ValueError) as error:
            self.reasons[CPU_ENERGY] = f"the CPU's energy counter cannot be read: {error}"
        else:
            if not found:
                self.reasons[CPU_ENERGY] = _NOTHING

    def read(self, time_ns: int, pids: Sequence[int], slow: bool) -> dict[str, Value]:
        if not slow or self.reasons:
            return {}
        try:
            return {CPU_ENERGY: sum(package.joules() for package in self._packages)}
        except (OSError, ValueError) as error:
            self.reasons[CPU_ENERGY] = f"the CPU's energy counter failed after {time_ns / 1e9:.1f} s: {error}"
            return {}

    def close(self) -> None:
        self._packages.clear()


def _is_package(zone: Path) -> bool:
    """Not `psys`, the whole board, which holds the packages, nor a package's parts (intel-rapl:0:1)."""
    return zone.name.count(":") == 1 and (zone / "name").read_text().startswith("package")


class _Package:
    """A counter of microjoules that starts again at zero above its range."""

    def __init__(self, zone: Path) -> None:
        self._path = zone / "energy_uj"
        self._modulus = int((zone / "max_energy_range_uj").read_text()) + 1
        self._last = self._counter()
        self._used = 0

    def _counter(self) -> int:
        return int(self._path.read_text())

    def joules(self) -> float:
        """A counter that fell from its lower half was set back: within a second it cannot have run over."""
        now = self._counter()
        if now < self._last < self._modulus // 2:
            raise ValueError(f"{self._path} was set back from {self._last} to {now}")
        self._used += (now - self._last) % self._modulus
        self._last = now
        return self._used / 1e6
