"""Every number of a study and of the user's settings has bounds that records and tables can hold."""

from __future__ import annotations

import re
import typing

import pytest

from rldyno.config import SlurmSettings, with_changes
from rldyno.errors import Problem
from rldyno.study.file import check_study
from rldyno.study.hyper import field_types
from rldyno.study.plan import make_plan
from rldyno.toml.source import parse
from rldyno_rig.algorithms import ALGORITHMS

ENDLESS = "1" + "0" * 400
"""More than any float holds."""
STUDY = """
contestants = "numpy:eager"
algorithms = "{algorithm}"
environments = "{environment}"
seeds = 1
{keys}
[budget]
steps = 300
{tables}
"""
NUMBERS = [
    (algorithm, name, kind)
    for algorithm in ALGORITHMS
    for name, kind in field_types(algorithm).items()
    if kind in (int, float)
]


def refused(text: str) -> str:
    with pytest.raises(Problem) as caught:
        make_plan(check_study(parse("s.toml", text)))
    return f"{caught.value.message}\n{caught.value.detail or ''}"


@pytest.mark.parametrize(
    ("algorithm", "name", "kind"), NUMBERS, ids=lambda value: getattr(value, "__name__", value)
)
def test_a_hyper_parameter_is_neither_endless_nor_larger_than_a_record_holds(
    algorithm: str, name: str, kind: type
) -> None:
    beyond = str(10**13) if kind is int else "1e31"
    for value in (ENDLESS, f"-{ENDLESS}", f"[{ENDLESS}]", "inf", "-inf", "nan", beyond):
        words = refused(
            STUDY.format(
                algorithm=algorithm, environment="CartPole-v1", keys="", tables=f"[hyper]\n{name} = {value}"
            )
        )
        assert f":10: hyper.{name}: must be" in words, value


@pytest.mark.parametrize(
    "text", [f"hidden = [{ENDLESS}]", "hidden = [10_000_000_000_000]", f"convolutions = [[{ENDLESS}, 3, 1]]"]
)
def test_sizes_of_layers_are_bounded(text: str) -> None:
    tables = f"[hyper]\n{text}"
    assert "must be at most 1e+12" in refused(
        STUDY.format(algorithm="dqn", environment="CartPole-v1", keys="", tables=tables)
    )


@pytest.mark.parametrize(
    ("keys", "tables"),
    [
        *(
            (f"{key} = {{}}", "")
            for key in ("max_episode_steps", "cores", "workers", "max_cpus", "order_seed")
        ),
        *((f"{key} = [{{}}]", "") for key in ("max_episode_steps", "cores", "workers")),
        *(("", f"{key} = {{}}") for key in ("episodes", "wall_s")),
        *(("", f"stop = {{{{ return = 1, {key} = {{}} }}}}") for key in ("episodes",)),
        ("", "stop = {{ return = {} }}"),
        *(("", f"[atari]\n{key} = {{}}") for key in ("sticky", "no_ops", "frame_limit")),
    ],
)
@pytest.mark.parametrize("value", [ENDLESS, f"-{ENDLESS}", str(2**63), "nan", "inf", "1e300"])
def test_other_numbers_are_bounded(keys: str, tables: str, value: str) -> None:
    environment = "ALE/Pong-v5" if "atari" in tables else "CartPole-v1"
    given = keys.format(value), tables.format(value)
    text = STUDY.format(algorithm="dqn", environment=environment, keys=given[0], tables=given[1])
    assert "must be" in refused(text)


@pytest.mark.parametrize("value", [ENDLESS, "-1", "0", str(2**63), "nan", "inf", "1e400"])
@pytest.mark.parametrize(
    "key",
    [
        name
        for name, field in SlurmSettings.model_fields.items()
        if any(part in (int, float) for part in (field.annotation, *typing.get_args(field.annotation)))
    ],
)
def test_numbers_of_the_cluster_are_bounded(key: str, value: str) -> None:
    if (key, value) == ("lost_after_s", "0"):
        assert with_changes(SlurmSettings(), ["lost_after_s=0"]).lost_after_s == 0
        return
    with pytest.raises(Problem, match=re.escape(f"--slurm {key}=")):
        with_changes(SlurmSettings(), [f"{key}={value}"])
