"""What can be built: one TOML file per framework, shipped here or kept in a directory of the user's."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from rldyno.config import load_config
from rldyno.errors import Problem
from rldyno.machine.devices import Device
from rldyno.toml import models
from rldyno.toml.suggestions import nearest
from rldyno.toolchains.interpreters import has_headers
from rldyno.toolchains.releases import Step, Versions, check_range, release_of, released_steps
from rldyno_rig.contestant import RELEASE_SIGN, Contestant
from rldyno_rig.guest.file import GUEST
from rldyno_rig.hyper import CNN, MLP
from rldyno_rig.schema import CACHES_PLACE

# Thread pools that any Python process may hold, with any framework.
COMMON_THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
)

# glibc's malloc keeps freed memory in the process. Giving large arrays of a convolution back to the system
# and getting them anew is up to two fifths of an update where a framework has no cache of its own; with the
# same setting for all it decides no comparison.
ALLOCATOR_VARIABLES = {
    "MALLOC_MMAP_THRESHOLD_": str(2**30),
    "MALLOC_TRIM_THRESHOLD_": str(2**32),
}
# CUDA counts from the fastest GPU on, NVML along the bus: worker and probe must mean the same one.
GPU_ORDER = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}

# Temporary files, and the caches of libraries that any framework may use.
CACHE_VARIABLES = {
    "TMPDIR": f"{CACHES_PLACE}/temporary",
    "XDG_CACHE_HOME": f"{CACHES_PLACE}/xdg",
    "CUDA_CACHE_PATH": f"{CACHES_PLACE}/cuda",
    "NUMBA_CACHE_DIR": f"{CACHES_PLACE}/numba",
    "TRITON_CACHE_DIR": f"{CACHES_PLACE}/triton",
}

Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_-]*$")]
Colour = Annotated[str, Field(pattern=r"^#[0-9a-f]{6}$")]
Devices = Annotated[tuple[Device, ...], Field(min_length=1)]
Collective = Literal["native", "horovod", "host"]


class _Table(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Need(_Table):
    """Something outside pip that the toolchain needs to run."""

    any_of: tuple[str, ...] = ()
    """Executables; one of them must be on PATH."""
    python_headers: bool = False
    """Python.h of the toolchain's interpreter, which a framework that compiles extensions includes."""
    modes: tuple[str, ...] = ()
    """The modes that need it; empty for all."""
    why: str
    fix: str

    @model_validator(mode="after")
    def _something(self) -> Need:
        if bool(self.any_of) == self.python_headers:
            raise ValueError("give either `any_of` or `python_headers = true`")
        return self

    @property
    def what(self) -> str:
        return " or ".join(self.any_of) or "Python.h"

    def met(self, python: Path) -> bool:
        if self.python_headers:
            return has_headers(python)
        return any(shutil.which(executable) for executable in self.any_of)


class ToolchainVariant(_Table):
    steps: Annotated[tuple[Step, ...], Field(min_length=1)]
    """Arguments of each `pip install`, in order."""


class Edit(_Table):
    """A change of a source file: `old` must be there."""

    file: str
    old: Annotated[str, Field(min_length=1)]
    new: str


class Source(_Table):
    """A package that is compiled here, against what the toolchain holds."""

    package: str
    """Its pin."""
    edits: tuple[Edit, ...] = ()
    tools: tuple[str, ...] = ()
    """Pins of what only its build needs."""
    variables: dict[str, str] = {}
    """Environment variables of its build."""


class Part(_Table):
    """Packages that only some studies need. They are kept beside the toolchain, which stays as it is."""

    summary: str
    collectives: tuple[Collective, ...] = ()
    """Those that need it."""
    environments: tuple[Literal["atari"], ...] = ()
    """Families of environments that need it."""
    import_name: str
    """The module whose import shows that the part works."""
    steps: tuple[Step, ...] = ()
    """Arguments of each `pip install`, in order; what these packages depend on is not installed."""
    source: Source | None = None
    """Installed after the steps."""
    needs: tuple[Need, ...] = ()
    """What its build needs."""
    variables: dict[str, str] = {}
    """Environment variables of workers that use it; `{part}` stands for its directory."""

    @model_validator(mode="after")
    def _something(self) -> Part:
        if not self.steps and self.source is None:
            raise ValueError("a part needs `steps` or `source`")
        if not self.serves:
            raise ValueError("a part needs `collectives` or `environments`: what it is for")
        return self

    @property
    def brings_mpi(self) -> bool:
        """Then its `mpiexec` starts the workers that use it. Nothing else decides that."""
        return self.import_name.partition(".")[0] == "mpi4py"

    @property
    def serves(self) -> tuple[str, ...]:
        return (*self.collectives, *self.environments)


class Threads(_Table):
    variables: tuple[str, ...] = ()


class NetworkVariables(_Table):
    """Environment variables of workers by the kind of their network: what is fast for one may be slow for the
    other. They replace `variables` of the same name.
    """

    mlp: dict[str, str] = {}
    cnn: dict[str, str] = {}

    def of(self, network: str | None) -> dict[str, str]:
        """None: a process that has no network."""
        return {None: {}, MLP: self.mlp, CNN: self.cnn}[network]


class Toolchain(_Table):
    kind: Literal["contestant", "peer", "tool"] = "contestant"
    """Contestants enter studies; benchmarks compare with peers, whole libraries; tools serve `usability`."""
    framework: Name
    summary: str
    import_name: str
    """The module whose import shows that the toolchain works."""
    python: str
    """Versions of CPython it runs on, e.g. ">=3.10,<3.14"."""
    backend: str = ""
    """Module of rldyno_rig.backends; contestants only."""
    modes: dict[Name, Devices] = {}
    """Execution mode → the devices it runs on; contestants only."""
    colour: tuple[Colour, Colour] | None = None
    """In charts, on white and on black; a framework without one gets a colour that follows from its name."""
    collectives: dict[Collective, Devices] = {}
    """How several workers of one trial average gradients → the devices on which that works; without any, a
    trial has one worker."""
    parts: dict[Name, Part] = {}
    """What is added to the toolchain only where it is asked for."""
    gpu_limits: Annotated[int, Field(ge=1)] | None = None
    """Place among the frameworks that can measure a GPU's limits, with rldyno_rig.limits.<backend>."""
    needs: tuple[Need, ...] = ()
    variables: dict[str, str] = {}
    """Environment variables of every worker."""
    network_variables: NetworkVariables = NetworkVariables()
    caches: dict[str, Annotated[str, Field(min_length=1)]] = {}
    """Variables that say where the framework keeps what it compiled, for workers of trials only: `{caches}`
    stands for the trial's own directory. They replace `variables` of the same name."""
    threads: Threads = Threads()
    versions: Versions = Versions()
    """How other releases than the pinned one are built."""
    cpu: ToolchainVariant
    cuda: ToolchainVariant | None = None

    _range = field_validator("python")(check_range)

    @model_validator(mode="after")
    def _consistent(self) -> Toolchain:
        if self.kind == "contestant" and not (self.backend and self.modes):
            raise ValueError("a contestant needs `backend` and `[modes]`")
        if self.kind != "contestant" and (self.backend or self.modes):
            raise ValueError(f"a {self.kind} has neither `backend` nor `[modes]`")
        for need in self.needs:
            for mode in need.modes:
                if mode not in self.modes:
                    raise ValueError(f"`needs` names the mode `{mode}`, which `[modes]` does not have")
        for name, part in self.parts.items():
            for collective in part.collectives:
                if collective not in self.collectives:
                    raise ValueError(
                        f"the part `{name}` gives `{collective}`, which `[collectives]` does not have"
                    )
        return self

    def part_of(self, need: str) -> str | None:
        """The part for a collective or a family of environments; None where the toolchain holds enough."""
        return next((name for name, part in self.parts.items() if need in part.serves), None)

    @property
    def top_module(self) -> str:
        """`mlx` of `mlx.core`."""
        return self.import_name.partition(".")[0]

    @property
    def thread_variables(self) -> tuple[str, ...]:
        """Every variable that is set to the number of cores."""
        return COMMON_THREAD_VARIABLES + self.threads.variables

    @property
    def variants(self) -> tuple[str, ...]:
        return ("cpu",) if self.cuda is None else ("cpu", "cuda")

    def steps(self, variant: str) -> tuple[Step, ...]:
        chosen = {"cpu": self.cpu, "cuda": self.cuda}.get(variant)
        if chosen is None:
            raise Problem(
                f"the {self.framework} toolchain has no {variant} variant",
                fix=f"choose from: {', '.join(self.variants)}",
            )
        return chosen.steps

    def at(self, text: str) -> Toolchain:
        """The toolchain of another release: `jax@0.7.0`."""
        release = release_of(text)

        def changed(variant: ToolchainVariant) -> ToolchainVariant:
            steps = released_steps(self.framework, variant.steps, self.versions, release)
            return ToolchainVariant(steps=steps)

        return self.model_copy(
            update={
                "framework": f"{self.framework}{RELEASE_SIGN}{release.text}",
                "summary": f"{self.summary}, release {release.text}",
                "cpu": changed(self.cpu),
                "cuda": None if self.cuda is None else changed(self.cuda),
            }
        )

    def missing_needs(self, python: Path) -> list[Need]:
        """The needs that this machine does not meet when `python` is the toolchain's interpreter."""
        return [need for need in self.needs if not need.met(python)]

    def own_variables(self, network: str | None) -> dict[str, str]:
        """What this file sets for workers with this kind of network; None: for those that have none."""
        return self.variables | self.network_variables.of(network)

    def worker_variables(self, cores: int, network: str | None = None) -> dict[str, str]:
        """The environment variables of a worker that may use this many cores."""
        threads = dict.fromkeys(self.thread_variables, str(cores))
        return ALLOCATOR_VARIABLES | GPU_ORDER | self.own_variables(network) | threads

    def trial_variables(self, cores: int, network: str) -> dict[str, str]:
        """Those of a worker whose caches are the trial's own; `{caches}` is not filled in yet."""
        return self.worker_variables(cores, network) | CACHE_VARIABLES | self.caches


def catalogue() -> dict[str, Toolchain]:
    """Framework → toolchain, for everything that can be a contestant."""
    return _of_kind("contestant")


def peers() -> dict[str, Toolchain]:
    """Name → toolchain, for the libraries that benchmarks compare with."""
    return _of_kind("peer")


def gpu_limit_frameworks() -> list[str]:
    """Frameworks that can measure a GPU's limits, the preferred one first."""
    places = {name: found.gpu_limits for name, found in catalogue().items() if found.gpu_limits is not None}
    return sorted(places, key=lambda name: (places[name], name))


def toolchain(name: str) -> Toolchain:
    """The contestant or peer of that name, or a release of it; a Problem with a suggestion otherwise."""
    known = read_catalogue()
    named = Contestant(name, "")
    if named.family not in known:
        raise unknown(named.family, known)
    chain = known[named.family]
    return chain.at(named.release) if RELEASE_SIGN in name else chain


def unknown(name: str, known: Iterable[str]) -> Problem:
    names = sorted(known)
    meant = nearest(name.removeprefix(f"{GUEST}:"), names)
    return Problem(
        f"unknown toolchain `{name}`" + (f", did you mean `{meant}`?" if meant else ""),
        fix=f"choose from: {', '.join(names)}",
    )


def read_catalogue() -> dict[str, Toolchain]:
    """All toolchains. A file of the user's replaces the shipped one of the same name."""
    directories = (Path(__file__).parent, *load_config().toolchain_dirs)
    return {name: found for directory in directories for name, found in _read(directory).items()}


def _of_kind(kind: str) -> dict[str, Toolchain]:
    return {name: found for name, found in read_catalogue().items() if found.kind == kind}


def _read(directory: Path) -> Mapping[str, Toolchain]:
    if not directory.is_dir():
        raise Problem(
            f"`toolchain_dirs` names {directory}, which is not a directory",
            fix="create it, or remove it from the config file",
        )
    return {path.stem: _read_file(path) for path in sorted(directory.glob("*.toml"))}


def _read_file(path: Path) -> Toolchain:
    found = models.load(Toolchain, path, "a toolchain file")
    if found.framework != path.stem:
        raise Problem(
            f'{path}: framework is "{found.framework}", but the file is called {path.name}',
            fix=f"rename it to {found.framework}.toml",
        )
    return found
