"""What is seen of a guest: its steps, its episodes, and the time that it spends in environments."""

from __future__ import annotations

import os
import time
from typing import Any, Callable, Dict, List, Optional, Sequence

from rldyno_rig.clock import Clock
from rldyno_rig.recorder import Recorder
from rldyno_rig.result_file import WorkerResult, crashed
from rldyno_rig.schema import PROGRESS_COLUMNS
from rldyno_rig.trial_file import TrialFile

ENOUGH = 0.9
"""Share of its budget of steps that a script must take. Scripts train in whole rollouts, and count a reset of
a vector environment as a step: they may end a little early."""


PATIENCE = 1000
"""Steps that a script may ask for after its end: its `except:`, without a class, catches that."""


class BudgetSpentError(BaseException):
    """Ends a script at its next step: no `except Exception` of its own catches this."""


class GuestRecorder(Recorder):
    """Of a guest only the environment's time is known; updates, losses and other phases are not."""

    environment_ns: Optional[int] = 0
    """None where the script reports its steps itself."""

    def _progress(self, now: int, step: int, loss: Optional[float]) -> None:
        mean = self.final_return()
        row: Dict[str, Any] = {"time_ns": now - self.spawn_ns, "step": step, "episode": self.episodes}
        if mean is not None:
            row["return_mean"] = repr(mean)
        row.update({phase + "_ns": spent for phase, spent in self.phases().items()})
        self._progress_file.write(",".join(str(row.get(name, "")) for name in PROGRESS_COLUMNS) + "\n")

    def phases(self) -> Dict[str, int]:
        """Nobody can see which part was acting, learning or storing: none of them is there."""
        return {} if self.environment_ns is None else {"environment": self.environment_ns}


class Watch:
    """Hooks call it in the process of the script. In forked children it is silent."""

    def __init__(
        self, recorder: GuestRecorder, environment: str, tick: Callable[[], int] = time.perf_counter_ns
    ) -> None:
        self.recorder = recorder
        self.inside = False
        """Whether a call into an environment is under way: calls inside it are not seen again."""
        self.steps = 0
        self.over = False
        """A budget is reached: the next step ends the script."""
        self.stopped_ns: Optional[int] = None
        """When it was ended; None of a script that ended by itself."""
        self.leave: Callable[[], None] = lambda: None
        """Writes what was seen and ends the process at once."""
        self._refused = 0
        self.environment = environment
        self.played: Dict[str, None] = {}
        """Ids of the environments that took steps, where they have one."""
        self.observation_shape: Sequence[int] = ()
        self.actions = 0
        self._tick = tick
        os.register_at_fork(after_in_child=self.silence)

    def silence(self) -> None:
        """See nothing from here on."""
        self.inside = True

    @property
    def started(self) -> bool:
        return bool(self.recorder.clock.started)

    def begin(self) -> None:
        """Training starts: with the first step, or where the script says so."""
        if not self.started:
            self.recorder.start()

    def before_step(self) -> None:
        if self.over:
            self.stopped_ns = self.stopped_ns or self._tick()
            self._refused += 1
            if self._refused > PATIENCE:
                self.leave()
            raise BudgetSpentError
        if not self.recorder.clock.started:
            self.recorder.start()

    def call(self, function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        """A call into an environment: its time counts."""
        tick = self._tick
        self.inside = True
        began = tick()
        try:
            return function(*arguments, **options)
        finally:
            spent = tick() - began
            self.inside = False
            recorder = self.recorder
            if recorder.clock.started and recorder.environment_ns is not None:
                recorder.environment_ns += spent

    def stepped(self, count: int) -> None:
        """So many steps were taken; their episodes were noted before."""
        self.steps += count
        recorder = self.recorder
        now = self._tick()
        if now >= recorder.next_beat:
            recorder.beat(now, self.steps, None)
        self.over = recorder.reason is not None or self.steps >= recorder.max_steps

    def episode(self, env: int, step: int, total: float, length: int, terminated: bool) -> None:
        self.recorder.episode(env, step, self._tick(), total, length, terminated)
        self.over = self.over or self.recorder.reason is not None

    def meet(self, env: Any) -> None:
        """An environment that takes its first step."""
        spec = getattr(env, "spec", None)
        name = getattr(spec, "id", None)
        if name:
            self.played[str(name)] = None
        space = getattr(env, "single_observation_space", None) or getattr(env, "observation_space", None)
        actions = getattr(env, "single_action_space", None) or getattr(env, "action_space", None)
        self.observation_shape = tuple(getattr(space, "shape", None) or ())
        self.actions = int(getattr(actions, "n", 0) or 0)

    def fault(self) -> Optional[str]:
        """Why a script that ended by itself, without an error, has not done its trial; None if it has."""
        recorder = self.recorder
        if not self.steps:
            return "the script took no step in an environment that rldyno sees (docs/guests.md)"
        wanted = ":" + self.environment  # the study may name a module before the id
        if self.played and not any(wanted.endswith(":" + name) for name in self.played):
            played = ", ".join(self.played)
            return "the script played {}, but its trial is of {}".format(played, self.environment)
        if recorder.reason is not None or self.steps >= ENOUGH * recorder.max_steps:
            return None
        if recorder.max_steps == float("inf"):
            return "the script ended by itself after {} steps, before its budget".format(self.steps)
        return "too few steps: the script ended by itself after {} of {}".format(
            self.steps, recorder.max_steps
        )


def finish(watch: Watch, script_ns: int, ended_ns: int) -> Dict[str, Any]:
    """The content of result.json of a script that met no error. `script_ns`: when its first line ran."""
    recorder, clock = watch.recorder, watch.recorder.clock
    end = watch.stopped_ns or ended_ns
    message = watch.fault()
    if message is not None:
        return crashed(message)
    reason = recorder.reason or "steps"
    trained = end - clock.started
    interpreter = script_ns - recorder.spawn_ns
    start = clock.started - recorder.spawn_ns
    return WorkerResult(
        reason=reason,
        message=recorder.message or _why(watch, reason),
        steps=watch.steps,
        episodes=recorder.episodes,
        startup_ns={"interpreter": interpreter, "build": start - interpreter},
        train_start_ns=start,
        train_ns=trained,
        phases_ns=recorder.phases(),
        threshold=recorder.threshold,
        final_return=recorder.final_return(),
    ).to_json()


def _why(watch: Watch, reason: str) -> str:
    if reason == "steps" and watch.steps < watch.recorder.max_steps:
        return "the script ended by itself after {} of {} steps".format(watch.steps, watch.recorder.max_steps)
    return "reached its budget of " + reason


def new_watch(directory: Any, trial: TrialFile, spawn_ns: int) -> Watch:
    return Watch(GuestRecorder(directory, trial.budget, Clock(), spawn_ns), trial.environment)


def as_list(values: Any) -> List[Any]:
    """Of a NumPy array, or of any sequence."""
    return values.tolist() if hasattr(values, "tolist") else list(values)
