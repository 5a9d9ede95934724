"""Toolchains: isolated Python environments that hold one framework each, or interpreters the user has."""
