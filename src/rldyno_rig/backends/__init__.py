"""One file per framework, with the same functions in the same order in each (docs/architecture.md)."""
