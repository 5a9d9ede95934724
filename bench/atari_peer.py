"""Runs inside Stable-Baselines3's toolchain: train its agent on an Atari game, print its steps per second."""

import inspect
import json
import os
import sys
import time
from pathlib import Path

# An isolated interpreter does not look where the toolchain's parts are.
sys.path += filter(None, os.environ.get("RLDYNO_PARTS", "").split(os.pathsep))

import ale_py
import gymnasium
import stable_baselines3
import torch
from stable_baselines3.common.atari_wrappers import AtariWrapper
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.vec_env import DummyVecEnv, VecFrameStack


class TrainingClock(BaseCallback):
    """Starts after `warm` steps: set-up is not timed, nor what the library does only once."""

    def __init__(self, warm):
        super().__init__()
        self.warm = warm
        self.started = None

    def _on_step(self):
        if self.started is None and self.num_timesteps >= self.warm:
            self.began_at, self.started = self.num_timesteps, time.perf_counter()
        return True


def main():
    job = json.loads(Path(sys.argv[1]).read_text())
    values, rules = job["hyper"], job["rules"]
    torch.set_num_threads(1)
    gymnasium.register_envs(ale_py)

    def game():
        """The preprocessing of the library; the emulator itself repeats actions, as in ours."""
        raw = gymnasium.make(job["environment"], frameskip=1, repeat_action_probability=rules["sticky"])
        return AtariWrapper(
            raw,
            noop_max=rules["no_ops"],
            terminal_on_life_loss=rules["life_loss"],
            clip_reward=rules["clip_rewards"],
        )

    agent = {"dqn": stable_baselines3.DQN, "ppo": stable_baselines3.PPO}[job["algorithm"]]
    wanted = {
        # Its network for images is that of Mnih et al. 2015, as ours.
        "policy": "CnnPolicy",
        "env": VecFrameStack(DummyVecEnv([game] * values["environments"]), n_stack=4),
        "learning_rate": values["learning_rate"],
        "gamma": values["gamma"],
        # 0 is no clipping in ours.
        "max_grad_norm": values["max_grad_norm"] or float("inf"),
        "seed": job["seed"],
        "device": "cpu",
        **(dqn if job["algorithm"] == "dqn" else ppo)(values, job["steps"]),
    }
    if values.get("value_clip"):
        wanted["clip_range_vf"] = values["clip_range"]
    train(agent, wanted, job)


def train(agent, wanted, job):
    """Print the steps per second, and which of the wanted settings the agent does not have."""
    known = inspect.signature(agent.__init__).parameters
    model = agent(**{name: value for name, value in wanted.items() if name in known})
    clock = TrainingClock(job["warm"])
    model.learn(total_timesteps=job["steps"], callback=clock, log_interval=None)
    rate = (model.num_timesteps - clock.began_at) / (time.perf_counter() - clock.started)
    print(json.dumps({"steps_per_s": rate, "not_taken": sorted(set(wanted) - set(known))}))


def dqn(values, steps):
    return {
        "batch_size": values["batch_size"],
        "buffer_size": values["capacity"],
        "learning_starts": values["learning_starts"],
        "train_freq": values["train_every"],
        "gradient_steps": values["updates_per_train"],
        "target_update_interval": values["target_sync"],
        "exploration_initial_eps": values["epsilon_start"],
        "exploration_final_eps": values["epsilon_end"],
        "exploration_fraction": min(1.0, values["epsilon_steps"] / steps),
    }


def ppo(values, steps):
    return {
        "n_steps": values["rollout_steps"],
        "batch_size": values["environments"] * values["rollout_steps"] // values["minibatches"],
        "n_epochs": values["epochs"],
        "gae_lambda": values["gae_lambda"],
        "clip_range": values["clip_range"],
        "ent_coef": values["entropy_coefficient"],
        "vf_coef": values["value_coefficient"],
    }


if __name__ == "__main__":
    main()
