"""Learning curves that somebody else measured: read from CSV files, kept with results, never ranked."""
