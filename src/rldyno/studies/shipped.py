"""From the name of a shipped study, or a path, to the study file."""

from __future__ import annotations

from pathlib import Path

from rldyno.errors import Problem
from rldyno.toml.suggestions import suggest


def shipped_studies() -> dict[str, Path]:
    """Name → file, in the order of the names."""
    return dict(sorted((path.stem, path) for path in Path(__file__).parent.glob("*.toml")))


def networks_studies() -> dict[str, Path]:
    """Those that time networks alone."""
    return dict(sorted((path.stem, path) for path in (Path(__file__).parent / "networks").glob("*.toml")))


def shipped_study(name: str) -> Path:
    known = shipped_studies() | networks_studies()
    if name not in known:
        raise Problem(f"no study is called '{name}'{suggest(name, known)}", fix="rldyno studies lists them")
    return known[name]


def find_study(given: Path | str) -> Path:
    """The study file that a user means: a file wins over a shipped study of the same name."""
    path = Path(given)
    is_name = len(path.parts) == 1 and not path.suffix
    if path.is_file() or not is_name:
        return path
    known = shipped_studies()
    if path.name in known:
        return known[path.name]
    if path.name in networks_studies():
        raise Problem(f"{path} times networks alone and has no trials", fix=f"rldyno run {path} runs it")
    raise Problem(
        f"there is no file {path}, and no study is called '{path}'{suggest(path.name, known)}",
        fix="give the path of a study file, or a name that `rldyno studies` lists",
    )
