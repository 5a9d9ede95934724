"""The lab: asks a question, launches trials, keeps their records and answers."""

__version__ = "0.1.0"
