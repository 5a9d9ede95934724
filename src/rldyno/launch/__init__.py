"""Running a plan's trials: here on this machine."""
