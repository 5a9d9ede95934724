"""Usability records as tables, for the report, a terminal and files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from packaging.version import InvalidVersion, Version

from rldyno.text.numbers import number
from rldyno.text.tables import Table
from rldyno.usability.cells import NOT_MEASURED, Records, figure, made
from rldyno.usability.compatibility import RUNS, TriedRelease
from rldyno.usability.record import Part, UsabilityRecord
from rldyno.usability.rounds import BUSY, busy_words
from rldyno.usability.topic_tables import (
    community_table,
    data_table,
    deployment_table,
    parallel_table,
    topic_notes,
    visualisation_table,
)
from rldyno_rig.algorithms import ALGORITHMS
from rldyno_rig.hyper import NETWORKS

TIMED = ("start", "data", "visualisation", "parallel", "save", "deployment", "compatibility")
MISTAKES = {"shape": "wrong shape", "dtype": "wrong type", "device": "wrong device"}
ACCEPTED = {"accepted": "accepted silently", "warned": "accepted with a warning"}
NAMED = ("names neither side", "names one side", "names both sides")


def all_tables(records: Records) -> list[Table]:
    makers = (
        install_table,
        code_table,
        mistakes_table,
        data_table,
        visualisation_table,
        parallel_table,
        save_table,
        export_table,
        deployment_table,
        release_table,
        community_table,
        compatibility_table,
        messages_table,
        notes_table,
    )
    return [table for make in makers if (table := make(records)).rows]


def install_table(records: Records) -> Table:
    def row(name: str, record: UsabilityRecord) -> tuple[str, ...]:
        install, started = record.part("install"), record.part("start")
        return (
            name,
            install.get("version", NOT_MEASURED),
            figure(install.get("install_s")),
            figure(install.get("size_bytes"), 1e-6),
            str(len(install["dependencies"])) if "dependencies" in install else NOT_MEASURED,
            figure(started.get("import_s")),
            first_updates(started),
        )

    columns = ("Version", "Install, s", "Size, MB", "Dependencies", "Import, s", "First update, s")
    return made("usability-install", "Installing and starting", columns, records, ("install", "start"), row)


def code_table(records: Records) -> Table:
    def row(name: str, record: UsabilityRecord) -> tuple[str, ...]:
        code = record.part("code")
        losses = code.get("losses", {})
        return (
            name,
            str(code["lines"]),
            str(code["complexity"]),
            str(code["most_complex"]["complexity"]),
            *(loss_words(losses.get(algorithm)) for algorithm in ALGORITHMS),
            str(code["transfer_statements"]),
        )

    titles = [algorithm.title for algorithm in ALGORITHMS.values()]
    columns = ("Lines", "Complexity", "Worst function", *titles, "Device statements")
    return made("usability-code", "The same algorithms, written in it", columns, records, ("code",), row)


def mistakes_table(records: Records) -> Table:
    def row(name: str, record: UsabilityRecord) -> tuple[str, ...]:
        return (name, *(mistake_words(record.part("mistakes")[kind]) for kind in MISTAKES))

    columns = tuple(words.capitalize() for words in MISTAKES.values())
    return made("usability-mistakes", "What a user sees of a mistake", columns, records, ("mistakes",), row)


def save_table(records: Records) -> Table:
    def row(name: str, record: UsabilityRecord) -> tuple[str, ...]:
        save = record.part("save")
        cells = [name, save["by"]]
        for network in NETWORKS:
            found = save["networks"][network]
            cells += [
                figure(found["file_bytes"], 1e-3),
                figure(found["save_s"], 1e3),
                figure(found["load_s"], 1e3),
            ]
        exact = all(found["exact"] for found in save["networks"].values())
        return (*cells, "yes" if exact else "no")

    figures = ("{}, kB", "{} save, ms", "{} load, ms")
    columns = tuple(words.format(name) for name in ("MLP", "CNN") for words in figures)
    return made(
        "usability-save", "Saving and loading", ("By", *columns, "Bit-exact"), records, ("save",), row
    )


def export_table(records: Records) -> Table:
    rows = [
        row for name, record in records.items() if record.part("export") for row in export_rows(name, record)
    ]
    columns = ("Framework", "Path", "Works", "Largest difference", "CNN, kB", "Also needs")
    return Table("usability-export", "Ways to export, tried with both networks", columns, tuple(rows))


def export_rows(name: str, record: UsabilityRecord) -> Iterator[tuple[str, ...]]:
    export = record.part("export")
    for path in export["paths"].values():
        answers = list(path.get("networks", {}).values())
        differences = [answer["difference"] for answer in answers if answer.get("difference") is not None]
        size = path.get("networks", {}).get("cnn", {}).get("file_bytes")
        yield (
            name,
            path["title"],
            "yes" if path["works"] else f"no: {path['reason']}",
            difference_words(differences),
            figure(size, 1e-3),
            ", ".join(pin.partition("==")[0] for pin in path["packages"]) or "nothing",
        )
    for title, why in export["missing"].items():
        yield (name, title, f"no: {why}", NOT_MEASURED, NOT_MEASURED, NOT_MEASURED)


def difference_words(differences: Sequence[float]) -> str:
    if not differences:
        return NOT_MEASURED
    return f"{max(differences):.0e}" if max(differences) else "0"


def release_table(records: Records) -> Table:
    def row(name: str, record: UsabilityRecord) -> tuple[str, ...]:
        release = record.part("release")
        wheels = release["wheels_for"]
        return (
            name,
            record.parts.get("install", {}).get("version", NOT_MEASURED),
            release["released"] or NOT_MEASURED,
            release["latest"] or NOT_MEASURED,
            release["latest_released"] or NOT_MEASURED,
            release["requires_python"] or "any",
            NOT_MEASURED if wheels is None else span(wheels) or "none: source only",
        )

    columns = ("Version", "Released", "Latest", "Released on", "Python", "Wheels for")
    return made("usability-release", "Releases and Pythons", columns, records, ("release",), row)


def compatibility_table(records: Records) -> Table:
    rows = [row for name, record in records.items() for row in compatibility_rows(name, record)]
    columns = ("Framework", "Release", "Released", "Runs the backend", "Update, µs", "Now, µs")
    return Table("usability-compatibility", "Earlier releases, with the same code", columns, tuple(rows))


def compatibility_rows(name: str, record: UsabilityRecord) -> Iterator[tuple[str, ...]]:
    found = record.part("compatibility")
    for release in map(TriedRelease.from_json, found.get("releases", ())):
        yield (
            f"{name}:{found['mode']}",
            release.version,
            release.released or NOT_MEASURED,
            "yes" if release.state == RUNS else f"no: it {release.state}",
            figure(release.update_s, 1e6),
            figure(release.beside_s, 1e6),
        )


def messages_table(records: Records) -> Table:
    rows = [
        (framework, MISTAKES[kind], found["message"])
        for framework, record in records.items()
        for kind, found in record.part("mistakes").items()
        if kind in MISTAKES and found["message"]
    ]
    columns = ("Framework", "Mistake", "Message")
    return Table("usability-messages", "The messages, word for word", columns, tuple(rows))


def notes_table(records: Records) -> Table:
    rows = tuple((framework, text) for framework, text in notes(records))
    return Table("usability-notes", "Notes on these numbers", ("Framework", "Note"), rows)


def notes(records: Records) -> Iterator[tuple[str, str]]:
    """(framework, why something was not measured, or what to know of what was)."""
    for name, record in records.items():
        for title, found in record.parts.items():
            if found.get("error"):
                yield name, f"{title} was not measured: {found['error']}"
        install, release = record.part("install"), record.part("release")
        if install.get("install_reason"):
            yield name, f"no install time: {install['install_reason']}"
        if install.get("packages_from"):
            ways = ", ".join(f"{count} {way}" for way, count in install["packages_from"].items())
            yield name, f"packages installed: {ways}"
        if release.get("reason"):
            yield name, f"no release date: {release['reason']}"
        yield from ((name, text) for text in compatibility_notes(record.part("compatibility")))
        yield from ((name, text) for text in topic_notes(record))
        for mode, found in record.part("start").get("first_update", {}).items():
            if found["reason"]:
                yield name, f"no first update of {mode}: {found['reason']}"
        load = max(record.part(timed).get("load_before", 0.0) for timed in TIMED)
        if load > BUSY:
            yield name, f"{busy_words(load)}: times may be too long{cpu_words(record)}"


def compatibility_notes(found: Part) -> Iterator[str]:
    if found.get("reason"):
        yield f"earlier releases were not tried: {found['reason']}"
    for release in map(TriedRelease.from_json, found.get("releases", ())):
        if release.reason:
            yield f"{release.version} {release.state}: {release.reason}"


def cpu_words(record: UsabilityRecord) -> str:
    """CPU time hardly depends on what else runs."""
    used = record.part("start").get("import_cpu_s")
    return "" if used is None else f"; the import used {number(used)} s of CPU time"


def first_updates(started: Part) -> str:
    """`1.23` of the one mode there is, `1.23 eager, 14.1 compile` of several."""
    modes = started.get("first_update", {})
    times = {mode: figure(found["median_s"]) for mode, found in modes.items()}
    if len(times) == 1:
        return next(iter(times.values()))
    return ", ".join(f"{seconds} {mode}" for mode, seconds in times.items()) or NOT_MEASURED


def loss_words(loss: Part | None) -> str:
    """`14 (2)`: lines, and the complexity."""
    return NOT_MEASURED if loss is None else f"{loss['lines']} ({loss['complexity']})"


def mistake_words(found: Part) -> str:
    if found["verdict"] in ACCEPTED:
        return ACCEPTED[found["verdict"]] + (f": {found['result']}" if found["result"] else "")
    if found["verdict"] == "crashed":
        return f"crashed: {found['message']}"
    return f"{found['type'] or 'error'}, {NAMED[found['names']]}, {found['traceback_lines']} lines"


def span(versions: Sequence[str]) -> str:
    """`3.11–3.14`; the names as they are where they are no versions."""
    try:
        ordered = sorted(versions, key=Version)
    except InvalidVersion:
        return ", ".join(versions)
    return "–".join(dict.fromkeys((ordered[0], ordered[-1]))) if ordered else ""
