"""What has to be known of a framework to measure its usability: one TOML file per backend."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from rldyno.toml import models
from rldyno_rig import identity

HOME = Path(__file__).parent / "frameworks"


class _Table(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Transfers(_Table):
    """What places an array on a device, moves one, or waits for one."""

    calls: tuple[str, ...] = ()
    """Patterns of what is called, as it is written: `jax.device_put`, `*.cpu`."""
    keywords: tuple[str, ...] = ()
    """Arguments that make any call one: `device`, `non_blocking`."""


class Mistake(_Table):
    code: str
    """A whole program that makes the mistake."""


class Mistakes(_Table):
    shape: Mistake
    dtype: Mistake
    device: Mistake


class Export(_Table):
    title: str
    packages: tuple[str, ...] = ()
    """Exact pins of what exporting needs beside the toolchain; they are kept out of it."""
    serve: str = ""
    """A whole program that reads what was exported and defines `answer(obs)`; none for ONNX files, whose
    program is the same for all."""


class Loader(_Table):
    title: str
    own: bool = True
    """Whether the framework brings it. False: it has none, and users write this loop."""


class Board(_Table):
    """What writes TensorBoard's event files."""

    title: str
    own: bool = True
    """Whether the framework brings it. False: it has none, and this one serves any program."""
    mode: str = ""
    """In which it is tried; the plainest without one."""
    packages: tuple[str, ...] = ()
    """Exact pins of what writing needs beside the toolchain; they are kept out of it."""


class Description(_Table):
    packages: Annotated[tuple[str, ...], Field(min_length=1)]
    """Names of the framework's distribution; the first that is installed is meant."""
    sources: Annotated[tuple[str, ...], Field(min_length=1)]
    """The backend's main file, and files of the rig that hold what other backends have in theirs."""
    transfers: Transfers
    mistakes: Mistakes
    exports: dict[str, Export] = {}
    """Name of a function in rldyno_rig.usability → what it needs."""
    missing: dict[str, str] = {}
    """An export path that people expect → why the framework has none."""
    loaders: dict[str, Loader] = {}
    """Name of an input pipeline in rldyno_rig.usability → what it is."""
    board: Board | None = None

    @property
    def files(self) -> list[Path]:
        """`sources`, each with what it imports from the backends' folder."""
        return [file for name in self.sources for file in identity.backend_files(identity.HERE / name)]


def description_path(backend: str) -> Path:
    return HOME / f"{backend.removesuffix('_')}.toml"


def describe(backend: str) -> Description | None:
    """None for a backend of the user's own without such a file."""
    path = description_path(backend)
    return models.load(Description, path, "a usability file") if path.exists() else None
