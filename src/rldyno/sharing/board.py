"""Packs of many people side by side. Every figure and every verdict comes from the answers room.

Each comparison is of one pack on one kind of machine: packs and machines are never pooled.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rldyno.answers.analysis import Analysis
from rldyno.answers.groups import (
    CERTIFICATE_WORDS,
    Group,
    MetricValue,
    Row,
    axis_words,
)
from rldyno.answers.trust import KINDS, compared
from rldyno.answers.wording import short_sentence
from rldyno.columns import Column
from rldyno.errors import Problem
from rldyno.records.directory import TRIALS
from rldyno.records.machine_facts import MachineFacts
from rldyno.records.seal import hash_of
from rldyno.report.heading import heading_of, machine_words
from rldyno.report.private import without_secrets
from rldyno.results.load import PROCESSOR, Results
from rldyno.sharing.beside import folder_beside
from rldyno.sharing.index import PackIndex, RanCode
from rldyno.sharing.known_code import source_of
from rldyno.sharing.shown import (
    ANONYMOUS,
    FLAWS,
    METRICS,
    REFUSED,
    REPEATED,
    UNKNOWN_CODE,
    Board,
    Contest,
    Entry,
    Figure,
    Machine,
    Mark,
    PackView,
    Ran,
)
from rldyno.sharing.unpack import open_pack
from rldyno.study.scripts import script_of
from rldyno.text.numbers import factor, interval, number, span
from rldyno_rig.schema import SAMPLES_FILE

_USUAL = {"workers": 1, "dtype": "float32", "division": "closed"}
"""Settings that are only named where they are different."""
_FLAWS_SHOWN = 20


def gather(paths: Iterable[Path], out: Path) -> Board:
    """Each pack once, however often it is given; those that cannot be trusted are marked.

    They are unpacked beside `out`, one after the other, for as long as they are read.
    """
    seen: set[str] = set()
    packs: list[PackView] = []
    contests: list[Contest] = []
    runs: dict[str, str] = {}
    for path in paths:
        sha256 = _sha256(path)
        if sha256 in seen:
            continue
        seen.add(sha256)
        with folder_beside(out) as folder:
            view, found = _pack(path, len(packs) + 1, sha256, folder)
            if found:
                view = _compared_with(runs, view, folder)
        packs.append(view)
        contests += found
    contests.sort(key=lambda one: (one.algorithm, one.environment, one.machine.label, one.how))
    return Board(tuple(packs), tuple(contests))


def _compared_with(runs: dict[str, str], view: PackView, folder: Path) -> PackView:
    """Marked where it holds runs of a pack before it, perhaps under another name. `runs`: hash of what the
    probe sampled, which no two runs have in common → the pack that has it; those of this pack are added.
    """
    hashes = {hash_of(path) for path in folder.glob(f"{TRIALS}/*/{SAMPLES_FILE}")}
    others = [runs[found] for found in hashes if found in runs]
    runs |= dict.fromkeys(hashes - runs.keys(), view.name)
    if not others:
        return view
    words = f"{len(others)} runs are also in {', '.join(dict.fromkeys(others))}: they are no new evidence"
    return replace(view, marks=(*view.marks, Mark(REPEATED, words)))


def _sha256(path: Path) -> str:
    if not path.is_file():
        fix = "give files that `rldyno pack` wrote"
        raise Problem(f"{path} is no pack: it is {'a directory' if path.is_dir() else 'no file'}", fix=fix)
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _pack(path: Path, pack: int, sha256: str, folder: Path) -> tuple[PackView, list[Contest]]:
    """Read as any results directory is."""
    try:
        unpacked = open_pack(path, folder)
        analysis = without_secrets(Analysis.load(folder))
        contests = [_contest(analysis, group, pack, sha256) for group in analysis.comparisons]
        return _view(analysis, unpacked.index, unpacked.flaws, path, pack, sha256), contests
    except Problem as problem:
        words = problem.message.replace(f"{path} was not unpacked: ", "").replace(str(folder), "it")
        mark = Mark(REFUSED, words, tuple((problem.detail or "").replace(f"{folder}/", "").splitlines()))
        return PackView(pack, path.name, sha256, (mark,)), []


def _view(
    analysis: Analysis, index: PackIndex, flaws: Sequence[str], path: Path, pack: int, sha256: str
) -> PackView:
    results = analysis.results
    ran = _ran(results)
    marks = []
    if flaws or index.flaws:
        kept = tuple(flaws or index.flaws)[:_FLAWS_SHOWN]
        admitted = "" if index.flaws else ", which its index does not admit"
        words = (
            f"{len(flaws or index.flaws)} damaged, altered or missing records{admitted}: they do not count"
        )
        marks.append(Mark(FLAWS, words, kept))
    strangers = dict.fromkeys(one.contestant for one in ran if one.source is None)
    if strangers:
        words = f"not the code of any rldyno known here: {', '.join(strangers)}"
        marks.append(Mark(UNKNOWN_CODE, words))
    if index.anonymous:
        words = f"paths and names were removed; {len(index.resealed)} records were sealed again by the packer"
        marks.append(Mark(ANONYMOUS, words))
    valid = sum(certificate.proven for certificate in results.certificates)
    return PackView(
        number=pack,
        file=path.name,
        sha256=sha256,
        marks=tuple(marks),
        heading=heading_of(results, analysis.comparisons),
        machine=machine_of(results.manifest.machine, sha256),
        about_machine=tuple(_about(results.manifest.machine)),
        packed=f"packed with rldyno {index.rldyno}",
        study=results.study,
        ran=ran,
        proofs=f"{valid} of {len(results.certificates)} certificates are complete proofs",
    )


def machine_of(facts: MachineFacts, sha256: str, processor: str | None = None) -> Machine:
    """`processor`: of trials on nodes of several kinds. A machine that left no hash belongs to its pack."""
    words = machine_words(facts, set()) or "unknown machine"
    if processor is not None:
        words = f"{processor} (a node of several kinds)"
    marks = (facts.host_sha256 or f"pack {sha256}", processor or "")
    return Machine(words, hashlib.sha256("\0".join(marks).encode()).hexdigest()[:16])


def _about(facts: MachineFacts) -> Iterable[str]:
    """What else a reader may want to know of a machine."""
    memory, drivers = facts.memory_total_bytes, [gpu.driver for gpu in facts.gpus if gpu.driver]
    return filter(
        None,
        (
            facts.os,
            f"kernel {facts.kernel}" if facts.kernel else "",
            f"{memory / 2**30:,.0f} GiB of memory" if memory else "",
            f"GPU driver {drivers[0]}" if drivers else "",
            f"perhaps shared with others ({facts.virtualisation})" if facts.virtualisation else "",
        ),
    )


def _ran(results: Results) -> tuple[Ran, ...]:
    return tuple(
        Ran(contestant, versions_words(results, contestant), *_code_words(code))
        for contestant, sets in results.codes.items()
        for code in (RanCode(contestant, **found) for found in sets)
    )


def _code_words(code: RanCode) -> tuple[str | None, str]:
    """Whose it is, and its hashes. A guest is what its user wrote, whoever reads the page."""
    if script_of(code.contestant) is not None:
        return "a guest: a script of its own", ""
    return source_of(code), _hashes(code)


def versions_words(results: Results, contestant: str) -> str:
    """`torch 2.11.0, python 3.12.3`; of several sets, each."""
    sets = results.versions.get(contestant, ())
    return "; ".join(
        ", ".join(
            f"{name} {value}" for name, value in sorted(one.items(), key=lambda item: item[0] == "python")
        )
        for one in sets
    )


def version_words(results: Results, row: Row) -> str:
    """`torch 2.11.0`: of the framework alone, where a package has its name."""
    sets = results.versions.get(row.contestant, ())
    found = dict.fromkeys(one[row.framework] for one in sets if row.framework in one)
    return f"{row.framework} {' and '.join(found)}" if found else versions_words(results, row.contestant)


def _hashes(code: RanCode) -> str:
    found = (("backend", code.backend), ("reference", code.reference), ("rig", code.rig))
    return ", ".join(f"{name} {value[:12]}" if value else f"{name} not recorded" for name, value in found)


def _contest(analysis: Analysis, group: Group, pack: int, sha256: str) -> Contest:
    results, metric, trust = analysis.results, group.primary, group.trust
    rows = compared(group, metric)
    answered = bool(rows) and not trust.barred and not trust.tied
    return Contest(
        algorithm=group.algorithm,
        environment=group.environment,
        machine=machine_of(results.manifest.machine, sha256, group.axes.get(PROCESSOR)),
        device=str(group.axes.get("device")),
        how=how_words(group.axes),
        pack=pack,
        sentence=short_sentence(group),
        level=trust.level,
        doubts=tuple((KINDS[objection.kind], objection.words) for objection in trust.objections),
        first=rows[0].contestant if answered else None,
        primary=metric.title,
        value=_figure(rows[0].figures[metric.name], metric) if answered else None,
        runner_up=_next(rows[1], metric) if answered and len(rows) > 1 else None,
        entries=tuple(_entry(results, row) for row in group.rows if row.absent is None),
    )


def how_words(axes: Mapping[str, Any]) -> str:
    """`cpu, 2 cores, cold caches`: all that trials of a comparison have in common, besides their task."""
    alone = axes.get("workers") == 1
    left_out = {"algorithm", "environment", PROCESSOR, *(("collective", "scaling") if alone else ())}
    return ", ".join(
        axis_words(name, value)
        for name, value in axes.items()
        if name not in left_out and value is not None and _USUAL.get(name) != value
    )


def _next(row: Row, metric: Column) -> str:
    """`torch:eager 1.8× [1.6, 2.0]`: how many times worse."""
    ratio = row.figures[metric.name].ratio
    words = "not reached" if ratio is None else " ".join(filter(None, [factor(ratio.point), interval(ratio)]))
    return f"`{row.contestant}` {words}"


def _entry(results: Results, row: Row) -> Entry:
    found = {metric.name: row.figures.get(metric.name) for metric in METRICS}
    words = CERTIFICATE_WORDS[row.certificate]
    return Entry(
        contestant=row.contestant,
        certificate=row.certificate,
        certificate_words=f"{words}: {row.certificate_detail}" if row.certificate_detail else words,
        unranked=row.unranked,
        seeds=row.done,
        version=version_words(results, row),
        figures={
            metric.name: _figure(figure, metric)
            for metric in METRICS
            if (figure := found[metric.name]) is not None
        },
    )


def _figure(figure: MetricValue, metric: Column) -> Figure:
    estimate = figure.estimate
    if not math.isfinite(estimate.point):
        return Figure(figure.note or "not reached", "")
    ratio = figure.ratio
    return Figure(
        text=number(estimate.point * metric.scale),
        unit=metric.unit,
        span=span(estimate, metric.scale),
        ratio=None if ratio is None or figure.first else factor(ratio.point),
        value=estimate.point * metric.scale,
        low=_finite(estimate.low, metric.scale),
        high=_finite(estimate.high, metric.scale),
        best=figure.best,
    )


def _finite(value: float | None, scale: float) -> float | None:
    return value * scale if value is not None and math.isfinite(value) else None
