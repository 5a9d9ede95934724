"""Certificates: the proof that a contestant computes what the reference computes, made, kept and judged."""
