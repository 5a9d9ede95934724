"""TOML files that people write: read, checked against a model, every mistake reported with its line."""
