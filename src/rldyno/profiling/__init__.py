"""A short trial under a sampling profiler."""
