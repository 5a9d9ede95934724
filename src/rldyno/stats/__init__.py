"""Estimates and intervals: pure functions on arrays; whatever is random takes an explicit generator."""
