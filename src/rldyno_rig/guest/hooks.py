"""Gymnasium as a script sees it, with a watch around steps and resets.

Nothing is imported here: a module is changed right after the script itself has imported it. Environments keep
their types and their wrappers: what `make` returns gets a `step` and a `reset` of its own, below all wrappers
of the script, so that returns are the environment's. Vector environments count as a whole, in the process of
the script, wherever their environments run.
"""

from __future__ import annotations

import copy
import functools
import importlib.util
import sys
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, Callable, Dict, List, Optional

from rldyno_rig.guest.watch import Watch, as_list

Change = Callable[[ModuleType, Watch], None]
_NEXT_STEP = "NEXT_STEP"


def install(watch: Watch) -> None:
    """Before the script runs."""
    sys.meta_path.insert(0, _Finder(watch))


class _Finder(MetaPathFinder):
    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self._searching = False

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> Optional[ModuleSpec]:
        change = CHANGES.get(fullname)
        if change is None or self._searching:
            return None
        self._searching = True
        try:
            spec = importlib.util.find_spec(fullname)
        finally:
            self._searching = False
        if spec is not None and spec.loader is not None:
            spec.loader = _Changing(spec.loader, change, self._watch)
        return spec


class _Changing(Loader):
    """Loads a module as its own loader does, then changes it."""

    def __init__(self, loader: Any, change: Change, watch: Watch) -> None:
        self._loader, self._change, self._watch = loader, change, watch

    def create_module(self, spec: ModuleSpec) -> Optional[ModuleType]:
        made: Optional[ModuleType] = self._loader.create_module(spec)
        return made

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        self._change(module, self._watch)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)


class Hook:
    """What an environment has in place of a method of its own.

    Copies of the environment are watched, too. Pickled, to a file or to another process, it is as the script
    made it.
    """

    watch: Watch
    env: Any
    name: str

    def __deepcopy__(self, memo: Dict[int, Any]) -> Hook:
        made = memo[id(self)] = object.__new__(type(self))
        for name, value in vars(self).items():
            setattr(made, name, value if name == "watch" else copy.deepcopy(value, memo))
        return made

    def __reduce__(self) -> Any:
        return getattr, (self.env, self.name)


class OneStep(Hook):
    """`step` of one environment."""

    name = "step"

    def __init__(self, watch: Watch, env: Any, number: int) -> None:
        self.watch, self.number = watch, number
        self.env_step, self.env_reset = env.step, env.reset
        self.total, self.length = 0.0, 0
        self.env, self.met = env, False

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        watch = self.watch
        if watch.inside:
            return self.env_step(*arguments, **options)
        watch.before_step()
        if not self.met:
            watch.meet(self.env)
            self.met = True
        result = watch.call(self.env_step, *arguments, **options)
        _, reward, terminated, truncated = result[:4]
        self.total += float(reward)
        self.length += 1
        if terminated or truncated:
            watch.episode(self.number, watch.steps + 1, self.total, self.length, bool(terminated))
            self.total, self.length = 0.0, 0
        watch.stepped(1)
        return result

    def reset(self, *arguments: Any, **options: Any) -> Any:
        if self.watch.inside:
            return self.env_reset(*arguments, **options)
        self.total, self.length = 0.0, 0
        return self.watch.call(self.env_reset, *arguments, **options)


class OneReset(Hook):
    """`reset` of one environment."""

    name = "reset"

    def __init__(self, step: OneStep) -> None:
        self.watch, self.env, self.step = step.watch, step.env, step

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        return self.step.reset(*arguments, **options)


class VectorMethod(Hook):
    """`step` or `reset` of a vector environment whose class is not one of `CHANGES`."""

    def __init__(self, around: Callable[..., Any], watch: Watch, env: Any, name: str) -> None:
        self.around, self.original = around, getattr(type(env), name)
        self.watch, self.env, self.name = watch, env, name

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        return self.around(self.original, self.watch, self.env, *arguments, **options)


class Several(Hook):
    """Episodes of a vector environment."""

    def __init__(self, watch: Watch, env: Any, resets_alone: bool) -> None:
        self.watch = watch
        self.totals: List[float] = []
        self.lengths: List[int] = []
        self.ended: List[bool] = []
        self.resets_alone = resets_alone
        """A step after the end of an episode only resets: it is no step of the environment."""
        watch.meet(env)

    def stepped(self, rewards: Any, terminated: Any, truncated: Any) -> None:
        watch, count = self.watch, 0
        rewards, terminated, truncated = as_list(rewards), as_list(terminated), as_list(truncated)
        if len(self.totals) != len(rewards):
            self.clear(len(rewards))
        for index, reward in enumerate(rewards):
            if self.ended[index] and self.resets_alone:
                self.ended[index] = False
                continue
            count += 1
            self.totals[index] += reward
            self.lengths[index] += 1
            self.ended[index] = bool(terminated[index] or truncated[index])
        for index, ended in enumerate(self.ended):
            if ended and self.lengths[index]:
                total, length = self.totals[index], self.lengths[index]
                watch.episode(index, watch.steps + count, total, length, bool(terminated[index]))
                self.totals[index], self.lengths[index] = 0.0, 0
        watch.stepped(count)

    def __reduce__(self) -> Any:
        """None."""
        return type(None), ()

    def clear(self, size: int, chosen: Any = None) -> None:
        """The environments start anew: all, or those that a mask names."""
        if chosen is None or len(self.totals) != size:
            self.totals, self.lengths, self.ended = [0.0] * size, [0] * size, [False] * size
            return
        for index, restarted in enumerate(as_list(chosen)):
            if restarted:
                self.totals[index], self.lengths[index], self.ended[index] = 0.0, 0, False


def change_registration(module: Any, watch: Watch) -> None:
    """`make` and `make_vec`."""
    made: List[Any] = []

    def seen(env: Any) -> Any:
        hook = OneStep(watch, env, len(made))
        made.append(None)
        env.step, env.reset = hook, OneReset(hook)
        return env

    def seen_vector(env: Any) -> Any:
        inner = getattr(env, "unwrapped", env)
        if not hasattr(type(inner), WATCHED):
            inner.step = VectorMethod(_vector_step, watch, inner, "step")
            inner.reset = VectorMethod(_vector_reset, watch, inner, "reset")
        return env

    for name, after in (("make", seen), ("make_vec", seen_vector)):
        original = getattr(module, name, None)
        if original is not None:
            setattr(module, name, _followed(original, after))


def _followed(original: Callable[..., Any], after: Callable[[Any], Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def followed(*arguments: Any, **options: Any) -> Any:
        return after(original(*arguments, **options))

    return followed


WATCHED = "_rldyno_watched"
_STATE = "_rldyno_episodes"


def change_vector(name: str) -> Change:
    """A class that runs several environments: its `step`, or `step_async` and `step_wait`, and `reset`."""

    def change(module: Any, watch: Watch) -> None:
        kind = getattr(module, name)
        setattr(kind, WATCHED, True)
        if hasattr(kind, "step_wait"):
            _replace(kind, "step_async", _vector_send, watch)
            _replace(kind, "step_wait", _vector_wait, watch)
        else:
            _replace(kind, "step", _vector_step, watch)
        _replace(kind, "reset", _vector_reset, watch)

    return change


def _replace(kind: Any, name: str, around: Callable[..., Any], watch: Watch) -> None:
    original = getattr(kind, name)

    @functools.wraps(original)
    def method(self: Any, *arguments: Any, **options: Any) -> Any:
        return around(original, watch, self, *arguments, **options)

    setattr(kind, name, method)


def _vector_send(original: Any, watch: Watch, env: Any, *arguments: Any, **options: Any) -> Any:
    if watch.inside:
        return original(env, *arguments, **options)
    watch.before_step()
    return watch.call(original, env, *arguments, **options)


def _vector_wait(original: Any, watch: Watch, env: Any, *arguments: Any, **options: Any) -> Any:
    if watch.inside:
        return original(env, *arguments, **options)
    result = watch.call(original, env, *arguments, **options)
    _several(watch, env).stepped(result[1], result[2], result[3] if len(result) > 4 else _never(result[2]))
    return result


def _vector_step(original: Any, watch: Watch, env: Any, *arguments: Any, **options: Any) -> Any:
    if not watch.inside:
        watch.before_step()
    return _vector_wait(original, watch, env, *arguments, **options)


def _vector_reset(original: Any, watch: Watch, env: Any, *arguments: Any, **options: Any) -> Any:
    if watch.inside:
        return original(env, *arguments, **options)
    chosen = (options.get("options") or {}).get("reset_mask")
    state = env.__dict__.get(_STATE)
    if state is not None:
        state.clear(len(state.totals), chosen)
    return watch.call(original, env, *arguments, **options)


def _several(watch: Watch, env: Any) -> Several:
    state: Optional[Several] = env.__dict__.get(_STATE)
    if state is None:
        state = env.__dict__[_STATE] = Several(watch, env, _resets_alone(env))
    return state


def _resets_alone(env: Any) -> bool:
    """Gymnasium says how; its version 1.0 did not yet, others before it reset within the last step."""
    mode = (getattr(env, "metadata", None) or {}).get("autoreset_mode")
    if mode is not None:
        return bool(getattr(mode, "name", mode) == _NEXT_STEP)
    gymnasium: Any = sys.modules.get("gymnasium")
    own = type(env).__module__.startswith("gymnasium.")
    return own and gymnasium is not None and not str(gymnasium.__version__).startswith("0.")


def _never(ended: Any) -> List[bool]:
    """Stable-Baselines3 has one flag for both ends of an episode."""
    return [False] * len(ended)


CHANGES: Dict[str, Change] = {
    "gymnasium.envs.registration": change_registration,
    "gymnasium.vector.sync_vector_env": change_vector("SyncVectorEnv"),
    "gymnasium.vector.async_vector_env": change_vector("AsyncVectorEnv"),
    "stable_baselines3.common.vec_env.subproc_vec_env": change_vector("SubprocVecEnv"),
}
"""Module → what is changed in it once it is imported."""
