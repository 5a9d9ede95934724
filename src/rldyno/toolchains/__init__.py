"""Toolchains: isolated Python environments that hold one framework each, or interpreters the user has.

`catalogue` says what can be built, `build` makes it, `store` keeps it, `resolve` finds a trial's interpreter.
"""
