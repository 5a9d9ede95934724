"""The report: one HTML file that needs no network."""

from rldyno.report.write import write_report

__all__ = ["write_report"]
