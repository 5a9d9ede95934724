"""The rig: trains one contestant inside its toolchain. Needs CPython ≥ 3.9, NumPy and one framework."""
