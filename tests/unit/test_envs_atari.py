"""Atari games keep the contract of environments, and look as Gymnasium's preprocessing shows them."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from closed_runs import trial
from rldyno.session.environments import try_environments
from rldyno.toolchains.resolve import ensure
from rldyno_rig import envs, training
from rldyno_rig.algorithms import ALGORITHMS
from rldyno_rig.backends import numpy_
from rldyno_rig.envs.atari_rules import ATARI, AtariRules, is_atari, is_preprocessed, rules_for
from rldyno_rig.hyper import to_json
from rldyno_rig.job_files import EnvironmentFacts
from rldyno_rig.parts.episodes import Episodes
from rldyno_rig.trial_file import TrialFile

STEPS = 250
"""Enough for a random player to lose all lives of Breakout."""


def game(name: str, count: int = 1, seed: int = 0, limit: int | None = None, **rules: Any) -> Any:
    pytest.importorskip("ale_py", reason="this Python has no ale-py: `make setup` installs it")
    return envs.make(f"ALE/{name}-v5", count, seed, limit, AtariRules(**rules))


def reference(name: str, **settings: Any) -> Any:
    """Gymnasium's preprocessing of the same game."""
    pytest.importorskip("cv2", reason="this Python has no OpenCV: `make setup` installs it")
    import ale_py
    import gymnasium
    from gymnasium.wrappers import AtariPreprocessing, FrameStackObservation

    gymnasium.register_envs(ale_py)
    raw = gymnasium.make(f"ALE/{name}-v5", frameskip=1, repeat_action_probability=0.0, **settings)
    wrapped = AtariPreprocessing(raw, noop_max=0)
    return FrameStackObservation(wrapped, 4, padding_type="zero")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["Pong", "Breakout", "MsPacman"])
def test_frames_rewards_and_ends_are_those_of_gymnasium(name: str) -> None:
    ours, theirs = game(name, sticky=0.0, no_ops=0, fire=False), reference(name)
    rng = np.random.default_rng(0)
    np.testing.assert_array_equal(ours.reset()[0], theirs.reset(seed=0)[0])
    for step in range(STEPS):
        action = int(rng.integers(ours.actions))
        obs, reward, terminated, truncated, final_obs = ours.step(np.array([action]))
        seen, raw, ended, cut_off, _ = theirs.step(action)
        np.testing.assert_array_equal(final_obs[0], seen, err_msg=f"step {step}")
        assert reward[0] == np.clip(raw, -1, 1)
        assert (terminated[0], truncated[0]) == (ended, cut_off)
        if ended:
            np.testing.assert_array_equal(obs[0], theirs.reset()[0])


@pytest.mark.slow
def test_a_lost_life_ends_an_episode_and_changes_no_frame() -> None:
    """Gymnasium's `terminal_on_life_loss` would cut the step short in which a life is lost."""
    ours, theirs = game("Breakout", sticky=0.0, no_ops=0, fire=False, life_loss=True), reference("Breakout")
    rng, lives, lost = np.random.default_rng(1), 5, 0
    ours.reset(), theirs.reset(seed=0)
    while not ours.score.over[0]:
        action = int(rng.integers(ours.actions))
        _, _, terminated, _, final_obs = ours.step(np.array([action]))
        seen, _, _, _, info = theirs.step(action)
        np.testing.assert_array_equal(final_obs[0], seen)
        assert terminated[0] == (info["lives"] < lives)
        lives, lost = info["lives"], lost + terminated[0]
    assert (lives, lost) == (0, 5)


@pytest.mark.slow
@pytest.mark.parametrize("limit", [400, 402, 404])
def test_games_are_cut_off_where_gymnasium_cuts_them_off(limit: int) -> None:
    ours = game("Pong", sticky=0.0, no_ops=0, fire=False, frame_limit=limit)
    theirs = reference("Pong", max_num_frames_per_episode=limit)
    ours.reset(), theirs.reset(seed=0)
    steps, cut_off = 0, False
    while not cut_off:
        _, _, terminated, truncated, final_obs = ours.step(np.array([0]))
        seen, _, ended, cut_off, _ = theirs.step(0)
        np.testing.assert_array_equal(final_obs[0], seen)
        assert (terminated[0], truncated[0]) == (ended, cut_off)
        steps += 1
    assert steps in (limit // 4, limit // 4 + 1)


@pytest.mark.slow
def test_games_begin_as_after_no_ops_in_gymnasium() -> None:
    first = game("Boxing", 16, sticky=0.0, fire=False).reset()[:, -1]
    theirs = reference("Boxing")
    theirs.reset(seed=0)
    preprocessing, shown = theirs.env, {}
    for frames in range(31):
        preprocessing.ale.getScreenGrayscale(preprocessing.obs_buffer[0])
        preprocessing.obs_buffer[1].fill(0)
        shown.setdefault(preprocessing._get_obs().tobytes(), frames)
        preprocessing.env.step(0)
    waited = [shown[screen.tobytes()] for screen in first]
    assert len(set(waited)) > 8
    assert max(waited) > 20
    assert len({screen.tobytes() for screen in game("Boxing", 16, no_ops=0).reset()}) == 1


@pytest.mark.slow
def test_a_sticky_game_repeats_the_action_before() -> None:
    """Always, the first one: none. As often as asked for, actions still count."""
    rng = np.random.default_rng(0)
    sticky, deaf, idle = (game("Boxing", no_ops=0, sticky=share) for share in (0.25, 1.0, 0.0))
    for env in (sticky, deaf, idle):
        env.reset()
    moved = False
    for _ in range(50):
        action = rng.integers(1, deaf.actions, 1)
        unmoved = idle.step(action * 0)[0]
        np.testing.assert_array_equal(deaf.step(action)[0], unmoved)
        moved |= bool((sticky.step(action)[0] != unmoved).any())
    assert moved


@pytest.mark.slow
def test_games_that_wait_for_fire_are_started() -> None:
    """Without it, a player who does nothing never sees a ball."""
    waiting, started = (game("Breakout", sticky=0.0, no_ops=0, fire=fire) for fire in (False, True))
    for env, moves in ((waiting, False), (started, True)):
        env.reset()
        screens = {env.step(np.array([0]))[0][0, -1].tobytes() for _ in range(30)}
        assert (len(screens) > 5) is moves


@pytest.mark.slow
@pytest.mark.parametrize(("life_loss", "limit"), [(False, None), (True, None), (True, 40)])
def test_the_step_that_ends_an_episode_starts_the_next(life_loss: bool, limit: int | None) -> None:
    env = game("Breakout", 3, 5, limit, life_loss=life_loss)
    rng, lost, over = np.random.default_rng(0), 0, 0
    before = env.reset()
    for _ in range(STEPS):
        obs, _, terminated, truncated, final_obs = env.step(rng.integers(0, env.actions, 3))
        ended = terminated | truncated
        assert (final_obs is obs) == (not ended.any())
        np.testing.assert_array_equal(final_obs[:, :-1], before[:, 1:])
        goes_on = ~env.score.over
        np.testing.assert_array_equal(obs[goes_on], final_obs[goes_on])
        assert (obs[env.score.over, 0] == 0).all()
        assert not (env.score.over & ~ended).any()
        lost, over = lost + (ended & goes_on).sum(), over + env.score.over.sum()
        before = obs
    assert over
    assert bool(lost) == life_loss
    if limit:
        assert over == 3 * (STEPS // limit)


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="threads are counted in /proc")
def test_a_trial_plays_with_as_many_threads_as_it_has_cores(tmp_path: Path) -> None:
    pytest.importorskip("ale_py", reason="this Python has no ale-py: `make setup` installs it")

    def threads() -> int:
        return len(list(Path("/proc/self/task").iterdir()))

    values = trial("numpy", "eager", "a2c", "float32", 100)
    values |= {"environment": "ALE/Pong-v5", "hyper": to_json(ALGORITHMS["a2c"].defaults("ALE/Pong-v5"))}
    for cores in (1, 2):
        file = TrialFile.from_json(values | {"cores": cores})
        recorder, before = training._recorder(tmp_path, file, 0), threads()
        job = training.build(file, numpy_, recorder)
        job.env.reset()
        job.env.step(np.zeros(job.env.count, int))
        assert threads() - before == cores
        del job


@pytest.mark.slow
def test_seeds_start_over_and_count_up() -> None:
    """Observation and no-ops of environment i follow from seed + i."""
    env, next_one = game("Pong", 2, 3), game("Pong", 1, 4)
    first, again = env.reset().copy(), env.reset()
    np.testing.assert_array_equal(first, again)
    np.testing.assert_array_equal(first[1], next_one.reset()[0])


@pytest.mark.slow
def test_the_learner_gets_clipped_rewards_and_the_record_the_return() -> None:
    """In Ms. Pac-Man every pill is worth 10."""
    env, raw = game("MsPacman", sticky=0.0), game("MsPacman", sticky=0.0, clip_rewards=False)
    recorded: list[float] = []
    recorder: Any = SimpleNamespace(episode=lambda *row: recorded.append(row[3]))
    episodes = Episodes.of(env, recorder)
    env.reset(), raw.reset()
    rng, total, clipped = np.random.default_rng(0), 0.0, set()
    for step in range(4 * STEPS):
        action = rng.integers(0, env.actions, 1)
        obs, reward, terminated, truncated, final_obs = env.step(action)
        episodes.count(reward)
        total += raw.step(action)[1][0]
        clipped.add(reward[0])
        if final_obs is not obs:
            episodes.ended(step, 0, terminated, truncated)
            break
    assert clipped == {0.0, 1.0}
    assert recorded == [total]
    assert total >= 100
    assert episodes.under_way()[0] == 0


def test_ids() -> None:
    assert is_preprocessed("ALE/MsPacman-v5")
    for raw in ("PongNoFrameskip-v4", "PongDeterministic-v0", "Pong-ram-v0", "ale_py:Pong-v4", "ALE/Pong-v5"):
        assert is_atari(raw)
    for other in ("CartPole-v1", "Acrobot-v1", "my.ale:Pong-v5", "my.ale:Pong-v4", "Pung-v4"):
        assert not is_atari(other)
        assert rules_for(other, AtariRules()) is None


def test_every_id_of_the_emulator_is_known_before_it_is_imported() -> None:
    """A toolchain gets the part with the games, and a worker registers them, by the id alone."""
    ale_py = pytest.importorskip("ale_py", reason="this Python has no ale-py: `make setup` installs it")
    import gymnasium

    gymnasium.register_envs(ale_py)
    emulated = {name: "ale_py" in str(found.entry_point) for name, found in gymnasium.registry.items()}
    assert {"Pong-v4", "Breakout-v0", "ALE/Tetris-v5"} <= emulated.keys()
    assert {name: is_atari(name) for name in emulated} == emulated


@pytest.mark.slow
@pytest.mark.toolchain("numpy")
def test_a_toolchain_with_the_part_makes_every_spelling() -> None:
    interpreter = ensure(["numpy"], needs={"numpy": [ATARI]})["numpy"]
    names = ("ALE/Pong-v5", "PongNoFrameskip-v4", "Pong-v4", "ALE/Pang-v5")
    found = {name: try_environments(interpreter, (name,))[name] for name in names}
    assert found["ALE/Pong-v5"] == EnvironmentFacts("ALE/Pong-v5", None, (4, 84, 84), "uint8", 6)
    for name in ("PongNoFrameskip-v4", "Pong-v4"):
        assert found[name] == EnvironmentFacts(name, None, (3, 210, 160), "uint8", 6)
    assert "Pang" in (found["ALE/Pang-v5"].error or "")
