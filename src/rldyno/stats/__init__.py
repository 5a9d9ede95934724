"""Estimates and intervals: pure functions on arrays; every random draw takes an explicit generator."""
