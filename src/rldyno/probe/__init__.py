"""The probe: watches a worker's process tree and the machine from outside the measured process."""

from rldyno.probe.probe import Probe

__all__ = ["Probe"]
