"""The definition of "right": forward, losses, gradients by hand and the optimiser, in plain NumPy.

Written to be read and checked against finite differences, not to be fast. Every backend is held against it.
"""
