"""What every algorithm shares and no framework sees: randomness, replay, returns, schedules. NumPy only."""
