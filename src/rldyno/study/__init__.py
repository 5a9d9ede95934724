"""A study file: its axes, hyper-parameters, placement and seeds, and the plan made from it."""
