"""Tables of loading data, TensorBoard, teams, deployment and community."""

from __future__ import annotations

from collections.abc import Iterator

from rldyno.text.tables import Table
from rldyno.usability.cells import NOT_MEASURED, Records, figure, made, whole, yes
from rldyno.usability.record import Part, UsabilityRecord
from rldyno_rig.hyper import NETWORKS

NONE_OF_ITS_OWN = "none of its own"


def data_table(records: Records) -> Table:
    rows = [row for name, record in records.items() for row in data_rows(name, record)]
    columns = ("Framework", "Pipeline", "Lines", "Items/s", "Each item once", "Shuffled", "Types kept")
    return Table("usability-data", "Loading the same transitions", columns, tuple(rows))


def data_rows(name: str, record: UsabilityRecord) -> Iterator[tuple[str, ...]]:
    for found in record.part("data").get("loaders", {}).values():
        yield (
            name,
            own_words(found),
            whole(found["lines"]),
            figure(found.get("items_per_s")),
            yes(found.get("each_once")),
            yes(found.get("shuffled")),
            yes(found.get("types_kept")),
        )


def own_words(found: Part) -> str:
    return str(found["title"]) if found["own"] else f"{NONE_OF_ITS_OWN}: {found['title']}"


def visualisation_table(records: Records) -> Table:
    def row(name: str, record: UsabilityRecord) -> tuple[str, ...]:
        found = record.part("visualisation")
        return (
            f"{name}:{found['mode']}",
            own_words(found),
            whole(found["lines"]),
            figure(found["update_s"], 1e6),
            figure(found["scalar_cpu_s"], 1e6),
            figure(found["logged_ratio"]),
            figure(found["watched_ratio"]),
            figure(found.get("server_cpu"), 100),
            yes(found.get("readable")),
        )

    columns = (
        *("Writer", "Lines", "Update, µs", "One scalar, µs of CPU", "Written, ×", "Watched, ×"),
        *("Server, % of a core", "Readable"),
    )
    title = "TensorBoard while training"
    return made("usability-visualisation", title, columns, records, ("visualisation",), row)


def parallel_table(records: Records) -> Table:
    rows = [row for name, record in records.items() for row in parallel_rows(name, record)]
    columns = (
        "Framework",
        "Lines, join",
        "Lines, team",
        "Collective",
        "By",
        "Two workers, s",
        "One worker, s",
    )
    return Table("usability-parallel", "Two workers until their first reduction", columns, tuple(rows))


def parallel_rows(name: str, record: UsabilityRecord) -> Iterator[tuple[str, ...]]:
    found = record.part("parallel")
    for collective, way in found.get("collectives", {}).items():
        yield (
            f"{name}:{found['mode']}",
            whole(found["lines"]["join"]),
            whole(found["lines"]["team"]),
            collective,
            way.get("means") or NOT_MEASURED,
            figure(way.get("first_reduction_s")),
            figure(found["alone_s"]),
        )


def deployment_table(records: Records) -> Table:
    rows = [row for name, record in records.items() for row in deployment_rows(name, record)]
    columns = ["Framework", "Exported as", "Runtime", "Lines", "Import, s"]
    for network in ("MLP", "CNN"):
        columns += [f"{network}, kB", f"{network} median, µs", f"{network} 99 %, µs"]
    return Table("usability-deployment", "Answering one observation", tuple(columns), tuple(rows))


def deployment_rows(name: str, record: UsabilityRecord) -> Iterator[tuple[str, ...]]:
    for path in record.part("deployment").get("paths", {}).values():
        if not path["works"]:
            continue
        cells = [name, path["title"], path["runtime"], whole(path["lines"])]
        cells.append(figure(path["networks"][NETWORKS[0]]["import_s"]))
        for network in NETWORKS:
            found = path["networks"][network]
            cells += [figure(found["file_bytes"], 1e-3), figure(found["median_s"], 1e6)]
            cells.append(figure(found["p99_s"], 1e6))
        yield tuple(cells)


def community_table(records: Records) -> Table:
    def row(name: str, record: UsabilityRecord) -> tuple[str, ...]:
        found = record.part("community")
        return (
            name,
            found["status"] or "unknown",
            ", ".join(found["languages"] or ()) or "unknown",
            found["licence"] or "unknown",
            count(found["releases"]),
            count(found["recent"]),
            found["first"] or "unknown",
            found["last"] or "unknown",
            found["read_on"],
        )

    columns = ("Status", "Languages", "Licence", "Releases", "In 24 months", "First", "Last", "Read on")
    return made("usability-community", "Community, by its metadata", columns, records, ("community",), row)


def count(value: int | None) -> str:
    return "unknown" if value is None else str(value)


def topic_notes(record: UsabilityRecord) -> Iterator[str]:
    """Why something of these tables was not measured."""
    for found in record.part("data").get("loaders", {}).values():
        if found.get("error"):
            yield f"{found['title']} loads nothing: {found['error']}"
    seen = record.part("visualisation")
    if seen.get("watch_reason"):
        yield f"TensorBoard was {seen['watch_reason']}"
    for collective, way in record.part("parallel").get("collectives", {}).items():
        if way["reason"]:
            yield f"no two workers by {collective}: {way['reason']}"
    for path in record.part("deployment").get("paths", {}).values():
        if path["reason"]:
            yield f"{path['title']} does not serve: {path['reason']}"
    community = record.part("community")
    if community.get("reason"):
        yield f"no dates of releases: {community['reason']}"
    if community.get("urls"):
        pages = ", ".join(f"{label} {address}" for label, address in community["urls"].items())
        yield f"pages that its metadata name: {pages}"
