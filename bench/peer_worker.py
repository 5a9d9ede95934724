"""Runs inside a peer's toolchain: train a library's agent on a given job and print its steps per second.

Stable-Baselines3 (PyTorch) and SBX (JAX) have one interface. Only what differs between them is written twice.
"""

import inspect
import json
import sys
import time
from pathlib import Path

import gymnasium
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.vec_env import DummyVecEnv


class TrainingClock(BaseCallback):
    """Starts when the first environment step is about to be taken: set-up is not timed.

    What a library compiles in training must not count either: `warm` steps come first.
    """

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
    values = job["hyper"]
    library, activations = load(job["library"])
    environments = DummyVecEnv([lambda: gymnasium.make(job["environment"])] * values["environments"])
    agent = {"dqn": library.DQN, "ppo": library.PPO}[job["algorithm"]]
    wanted = {
        "policy": "MlpPolicy",
        "env": environments,
        "learning_rate": values["learning_rate"],
        "gamma": values["gamma"],
        "max_grad_norm": values["max_grad_norm"],
        "seed": job["seed"],
        "device": "cpu",
        "policy_kwargs": {
            "net_arch": values["hidden"],
            "activation_fn": activations[values["activation"]],
        },
        **(dqn if job["algorithm"] == "dqn" else ppo)(values, job["steps"]),
    }
    known = inspect.signature(agent.__init__).parameters
    model = agent(**{name: value for name, value in wanted.items() if name in known})
    clock = TrainingClock(job["warm"])
    model.learn(total_timesteps=job["steps"], callback=clock, log_interval=None)
    rate = (model.num_timesteps - clock.began_at) / (time.perf_counter() - clock.started)
    print(json.dumps({"steps_per_s": rate, "not_taken": sorted(set(wanted) - set(known))}))


def load(name):
    if name == "sbx":
        import flax.linen
        import sbx

        return sbx, {"relu": flax.linen.relu, "tanh": flax.linen.tanh}
    import stable_baselines3
    import torch

    torch.set_num_threads(1)
    return stable_baselines3, {"relu": torch.nn.ReLU, "tanh": torch.nn.Tanh}


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
