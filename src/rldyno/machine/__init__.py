"""What this machine is, which devices and CPUs it offers, and how disturbed it was."""
