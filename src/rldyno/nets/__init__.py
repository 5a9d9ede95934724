"""The network micro-benchmark: one act and one update of a network alone, in every contestant.

The work of stooke2017, done by the backends that train: no second implementation.
"""
