from __future__ import annotations

import ast
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import rldyno_rig
from rldyno import toolchains
from rldyno.errors import Problem
from rldyno.toolchains.catalogue import ALLOCATOR_VARIABLES, catalogue, peers, read_catalogue, toolchain

SHIPPED = sorted(path.stem for path in Path(toolchains.__file__).parent.glob("*.toml"))
BACKENDS = Path(rldyno_rig.__file__).parent / "backends"

TINY = """
framework = "tiny"
backend = "tiny_"
import_name = "tiny"
summary = "for tests"
python = ">=3.9"

[modes]
eager = ["cpu"]

[cpu]
steps = [["tiny==1.0"]]
"""


@pytest.fixture(autouse=True)
def user_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory for toolchain files, named by a config file of its own."""
    directory = tmp_path / "mine"
    directory.mkdir()
    config = tmp_path / "config.toml"
    config.write_text(f'toolchain_dirs = ["{directory}"]\n')
    monkeypatch.setenv("RLDYNO_CONFIG", str(config))
    return directory


def backend_modes(module: str) -> tuple[str, ...]:
    """MODES as written in the backend's source, which need not be importable here."""
    for node in ast.parse((BACKENDS / f"{module}.py").read_text()).body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        if any(isinstance(target, ast.Name) and target.id == "MODES" for target in targets):
            return tuple(ast.literal_eval(node.value))  # type: ignore[attr-defined]
    raise AssertionError(f"{module}.py defines no MODES")


def test_modes_are_those_of_the_backend() -> None:
    written = {name: tuple(chain.modes) for name, chain in catalogue().items()}
    assert written == {name: backend_modes(chain.backend) for name, chain in catalogue().items()}


def test_peers_are_not_contestants() -> None:
    assert {"sb3", "sbx"} <= peers().keys()
    assert not set(peers()) & set(catalogue())
    assert {"numpy", "torch"} <= set(catalogue())


@pytest.mark.parametrize("name", SHIPPED)
def test_every_requirement_is_pinned_exactly_and_gymnasium_is_where_agents_run(name: str) -> None:
    chain = read_catalogue()[name]
    for variant in chain.variants:
        packages = [
            Requirement(argument)
            for step in chain.steps(variant)
            for argument in step
            if not argument.startswith("-")
        ]
        pins = {package.name: str(package.specifier) for package in packages}
        assert all(pin.startswith("==") for pin in pins.values()), pins
        assert ("gymnasium" in pins) == (chain.kind != "tool")


@pytest.mark.parametrize("name", SHIPPED)
def test_every_requirement_of_a_part_is_pinned_exactly(name: str) -> None:
    for part in read_catalogue()[name].parts.values():
        source = [part.source.package, *part.source.tools] if part.source else []
        pins = [Requirement(argument) for argument in [*sum(part.steps, ()), *source]]
        assert all(str(pin.specifier).startswith("==") for pin in pins), pins


def test_thread_pools_follow_the_cores() -> None:
    variables = toolchain("torch").worker_variables(3)
    assert variables["OMP_NUM_THREADS"] == variables["MKL_NUM_THREADS"] == "3"


def test_allocators_are_the_same_for_all() -> None:
    for chain in catalogue().values():
        assert not [name for name in chain.variables if name.startswith("MALLOC_")], chain.framework
        assert chain.worker_variables(1).items() >= ALLOCATOR_VARIABLES.items()


def test_workers_count_gpus_as_the_probe_does() -> None:
    for chain in catalogue().values():
        assert chain.worker_variables(1)["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID", "NVML counts along the bus"


def test_no_framework_reserves_gpu_memory_that_it_does_not_use() -> None:
    """torch's caching allocator grows as it is used; the others need a setting for that."""
    told = {
        "jax": ("XLA_PYTHON_CLIENT_PREALLOCATE", "false"),
        "pytensor": ("XLA_PYTHON_CLIENT_PREALLOCATE", "false"),
        "tensorflow": ("TF_FORCE_GPU_ALLOW_GROWTH", "true"),
    }
    on_gpus = {name for name, chain in catalogue().items() if chain.cuda is not None}
    assert on_gpus == {"torch", *told}
    for name, (variable, value) in told.items():
        assert toolchain(name).worker_variables(1)[variable] == value


def test_a_users_file_is_added(user_dir: Path) -> None:
    (user_dir / "tiny.toml").write_text(TINY)
    chain = catalogue()["tiny"]
    assert chain.modes == {"eager": ("cpu",)}
    assert chain.collectives == {}
    assert chain.parts == {}
    assert chain.variants == ("cpu",)


def test_a_users_file_replaces_the_shipped_one(user_dir: Path) -> None:
    (user_dir / "torch.toml").write_text(TINY.replace('framework = "tiny"', 'framework = "torch"'))
    assert catalogue()["torch"].steps("cpu") == (("tiny==1.0",),)


def test_the_format_carries_several_steps_flags_and_thread_variables(user_dir: Path) -> None:
    text = TINY.replace(
        'steps = [["tiny==1.0"]]',
        'steps = [["setuptools==65.5.0", "wheel"], ["--no-build-isolation", "tiny==1.0"]]',
    )
    text += '[variables]\nTINY_FLAGS = "blas.ldflags="\n[threads]\nvariables = ["NPROC"]\n'
    (user_dir / "tiny.toml").write_text(text)
    chain = toolchain("tiny")
    assert chain.steps("cpu")[1] == ("--no-build-isolation", "tiny==1.0")
    variables = chain.worker_variables(2)
    assert variables["NPROC"] == "2"
    assert variables["TINY_FLAGS"] == "blas.ldflags="


PART = '[parts.mpi]\nsummary = "MPI"\ncollectives = ["host"]\nimport_name = "mpi4py"\nsteps = [["mpi4py"]]\n'
NEED = '[[needs]]\nmodes = ["{mode}"]\nwhy = "it compiles"\nfix = "install it"\n{what}\n'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (TINY.replace("summary", "sumary"), "summary: missing"),
        (TINY + 'typo = "x"\n', ":13: cpu.typo: unknown key"),
        (TINY.replace('python = ">=3.9"', 'python = "3.9 or so"'), "not a version range"),
        (TINY.replace('eager = ["cpu"]', 'eager = ["gpu"]'), "modes.eager"),
        (TINY.replace('eager = ["cpu"]', "eager = []"), "modes.eager"),
        (TINY.replace('steps = [["tiny==1.0"]]', "steps = []"), "cpu.steps"),
        (TINY.replace('backend = "tiny_"', ""), "a contestant needs `backend`"),
        ('kind = "peer"\n' + TINY, "a peer has neither"),
        (TINY.replace('framework = "tiny"', 'framework = "other"'), 'framework is "other"'),
        (TINY + '[collectives]\nhosts = ["cpu"]\n', "collectives.hosts"),
        (TINY + '[collectives]\nhost = ["gpu"]\n', "collectives.host"),
        (TINY + PART, "the part `mpi` gives `host`, which `[collectives]` does not have"),
        (TINY + PART.replace("steps = ", "# ") + '[collectives]\nhost = ["cpu"]\n', "`steps` or `source`"),
        (TINY + NEED.format(mode="graph", what='any_of = ["g++"]'), "names the mode `graph`"),
        (TINY + NEED.format(mode="eager", what=""), "either `any_of` or"),
        ("framework = ", ":1: invalid value"),
    ],
)
def test_a_wrong_file_is_named_with_what_is_wrong(user_dir: Path, text: str, message: str) -> None:
    path = user_dir / "tiny.toml"
    path.write_text(text)
    with pytest.raises(Problem) as raised:
        catalogue()
    problem = raised.value
    assert str(path) in problem.message
    assert message in f"{problem.message} {problem.detail}"


def test_a_misspelt_key_gets_a_suggestion(user_dir: Path) -> None:
    (user_dir / "tiny.toml").write_text("collective = 2\n" + TINY)
    with pytest.raises(Problem, match=":1: collective: unknown key, did you mean 'collectives'"):
        catalogue()


def test_a_misspelt_name_gets_a_suggestion() -> None:
    with pytest.raises(Problem, match="unknown toolchain `troch`, did you mean `torch`"):
        toolchain("troch")
    with pytest.raises(Problem, match="did you mean `sb3`"):
        toolchain("script:sb3")


def test_a_missing_variant_is_a_problem() -> None:
    with pytest.raises(Problem, match="numpy toolchain has no cuda variant"):
        toolchain("numpy").steps("cuda")


def test_a_need_is_met_by_any_of_its_executables(
    user_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (user_dir / "tiny.toml").write_text(
        TINY + NEED.format(mode="eager", what='any_of = ["rldyno-cxx", "rldyno-clang"]')
    )
    binaries = tmp_path / "bin"
    binaries.mkdir()
    monkeypatch.setenv("PATH", str(binaries))
    chain = toolchain("tiny")
    assert chain.missing_needs(Path("python")) == list(chain.needs)
    (binaries / "rldyno-clang").write_text("#!/bin/sh\n")
    (binaries / "rldyno-clang").chmod(0o755)
    assert chain.missing_needs(Path("python")) == []
