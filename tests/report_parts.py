"""A report's material, charts and tables, for tests that look at them one by one."""

from __future__ import annotations

from pathlib import Path

from rldyno.answers.analysis import Analysis
from rldyno.report.figures import every_table
from rldyno.report.material import Material
from rldyno.report.page import render, write_report
from rldyno.report.section import Chart
from rldyno.report.sections import all_sections
from rldyno.text.tables import Table


def material_of(directory: Path) -> Material:
    return Material(Analysis.load(directory), all_sections())


def charts_by_panel(material: Material) -> dict[str, dict[str, Chart]]:
    """Panel → id of the chart → chart, over all sections."""
    found: dict[str, dict[str, Chart]] = {}
    for section in material.sections:
        for panel in section.charts(material):
            found.setdefault(panel.id, {}).update({chart.id: chart for chart in panel.charts})
    return found


def labels(material: Material) -> dict[str, str]:
    """Panel → its label."""
    return {panel.id: panel.label for section in material.sections for panel in section.charts(material)}


def tables(material: Material) -> dict[str, Table]:
    return {table.name: table for table in every_table(material)}


def html_of(directory: Path) -> str:
    return render(Analysis.load(directory))


def report_of(directory: Path, path: Path | None = None) -> Path:
    return write_report(Analysis.load(directory), path)
