"""The study, the versions and the commands that make these results again."""

from __future__ import annotations

from typing import Any

from rldyno.report.material import Material
from rldyno.report.section import Section
from rldyno.results.load import Results
from rldyno_rig.contestant import Contestant


def context(material: Material) -> dict[str, Any]:
    manifest = material.results.manifest
    return {
        "study": material.results.study,
        "note": material.results.study_note,
        "revision": manifest.git_revision,
        "left_out": list(manifest.left_out),
        "amended": list(manifest.amended),
        "toolchains": toolchains(material.results),
    }


def toolchains(results: Results) -> list[str]:
    """What each framework ran with, one line each: `torch: python 3.11.7, torch 2.9.0, numpy 2.3.1`."""
    lines = {
        Contestant.parse(contestant).framework: ", ".join(
            f"{name} {version}" for name, version in sets[0].items()
        )
        for contestant, sets in results.versions.items()
    }
    return [f"{framework}: {packages}" for framework, packages in lines.items()]


SECTION = Section(
    id="reproduce",
    order=200,
    title="Reproduce",
    about="the study, the versions and the commands",
    context=context,
    shown=lambda _: True,
)
