"""Runs inside the sb3 toolchain: train Stable-Baselines3 on a given job and print its steps per second."""

import json
import sys
import time
from pathlib import Path

import gymnasium
import torch
from stable_baselines3 import DQN, PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.vec_env import DummyVecEnv

ACTIVATIONS = {"relu": torch.nn.ReLU, "tanh": torch.nn.Tanh}


class TrainingClock(BaseCallback):
    """Starts when the first environment step is about to be taken: set-up is not timed."""

    def _on_training_start(self):
        self.started = time.perf_counter()

    def _on_step(self):
        return True


def main():
    job = json.loads(Path(sys.argv[1]).read_text())
    values = job["hyper"]
    torch.set_num_threads(1)
    environments = DummyVecEnv([lambda: gymnasium.make(job["environment"])] * values["environments"])
    common = {
        "policy": "MlpPolicy",
        "env": environments,
        "learning_rate": values["learning_rate"],
        "gamma": values["gamma"],
        "max_grad_norm": values["max_grad_norm"],
        "seed": job["seed"],
        "device": "cpu",
        "policy_kwargs": {
            "net_arch": values["hidden"],
            "activation_fn": ACTIVATIONS[values["activation"]],
        },
    }
    model = (dqn if job["algorithm"] == "dqn" else ppo)(common, values, job["steps"])
    clock = TrainingClock()
    model.learn(total_timesteps=job["steps"], callback=clock, log_interval=None)
    print(model.num_timesteps / (time.perf_counter() - clock.started))


def dqn(common, values, steps):
    return DQN(
        **common,
        batch_size=values["batch_size"],
        buffer_size=values["capacity"],
        learning_starts=values["learning_starts"],
        train_freq=values["train_every"],
        gradient_steps=values["updates_per_train"],
        target_update_interval=values["target_sync"],
        exploration_initial_eps=values["epsilon_start"],
        exploration_final_eps=values["epsilon_end"],
        exploration_fraction=min(1.0, values["epsilon_steps"] / steps),
    )


def ppo(common, values, steps):
    return PPO(
        **common,
        n_steps=values["rollout_steps"],
        batch_size=values["environments"] * values["rollout_steps"] // values["minibatches"],
        n_epochs=values["epochs"],
        gae_lambda=values["gae_lambda"],
        clip_range=values["clip_range"],
        ent_coef=values["entropy_coefficient"],
        vf_coef=values["value_coefficient"],
    )


if __name__ == "__main__":
    main()
