"""`python -m rldyno.probe`: one reading of every GPU, what each call costs, and what cannot be read."""

from __future__ import annotations

import os
import time
from typing import Any

from rldyno.probe import nvml


def main() -> None:
    with nvml.opened_nvml() as (library, reason):
        if library is None:
            print(f"no GPU can be read: {reason}")
        else:
            _print_all(library)


def _print_all(library: Any) -> None:
    print(f"driver {library.nvmlSystemGetDriverVersion()}")
    for index, handle in nvml.visible_devices(library, os.environ):
        device = nvml.Device(library, handle, index)
        print(f"GPU {index}: {device.name}")
        for name in (call.name for call in nvml.CALLS):
            begin = time.perf_counter_ns()
            value = device.get(name)
            took_us = (time.perf_counter_ns() - begin) / 1e3
            if value is None:
                print(f"  {name:18} not readable: {device.reasons[name]}")
                continue
            shown = f"{value:#x} = {nvml.throttle_words(value) or ['none']}" if name == "throttle" else value
            print(f"  {name:18} {shown}  ({took_us:.0f} µs)")
        if "memory_reserved" in device.reasons:
            print(f"  {'memory reserved':18} not readable: {device.reasons['memory_reserved']}")


if __name__ == "__main__":
    main()
