"""Proofs: certificates that a contestant computes what the reference computes, made, kept and checked."""
