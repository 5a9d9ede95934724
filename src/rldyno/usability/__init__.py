"""Usability, measured: what installing, writing, debugging, saving and exporting cost in each framework."""
