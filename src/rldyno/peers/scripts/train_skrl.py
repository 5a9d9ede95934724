"""DQN and PPO with skrl, as its users write it: the guest `script:skrl`."""

import argparse
import json

import gymnasium as gym
import torch
from skrl.agents.torch.dqn import DQN, DQN_CFG
from skrl.agents.torch.ppo import PPO, PPO_CFG
from skrl.envs.wrappers.torch import wrap_env
from skrl.memories.torch import RandomMemory
from skrl.models.torch import CategoricalMixin, DeterministicMixin, Model
from skrl.trainers.torch import SequentialTrainer
from skrl.utils import set_seed

ACTIVATIONS = {"relu": torch.nn.ReLU, "tanh": torch.nn.Tanh}
QUIET = {"write_interval": 0, "checkpoint_interval": 0}


class Policy(CategoricalMixin, Model):
    def __init__(self, args, **spaces) -> None:
        Model.__init__(self, **spaces)
        CategoricalMixin.__init__(self)
        self.net = layers(args, self.num_observations, self.num_actions)

    def compute(self, inputs, role=""):
        return self.net(inputs["observations"]), {}


class Values(DeterministicMixin, Model):
    """V of each observation, or Q of each action."""

    def __init__(self, args, outputs, **spaces) -> None:
        Model.__init__(self, **spaces)
        DeterministicMixin.__init__(self)
        self.net = layers(args, self.num_observations, outputs or self.num_actions)

    def compute(self, inputs, role=""):
        return self.net(inputs["observations"]), {}


def layers(args, inputs, outputs):
    widths = [inputs, *args.hidden]
    hidden = [
        layer
        for before, after in zip(widths, args.hidden, strict=False)
        for layer in (torch.nn.Linear(before, after), ACTIVATIONS[args.activation]())
    ]
    return torch.nn.Sequential(*hidden, torch.nn.Linear(widths[-1], outputs))


def main() -> None:
    args = arguments()
    torch.set_num_threads(args.cores)
    set_seed(args.seed)
    if args.environments == 1:
        env = gym.make(args.environment)
    else:
        env = gym.make_vec(args.environment, num_envs=args.environments, vectorization_mode="sync")
    env.reset(seed=args.seed)
    env = wrap_env(env)
    train = dqn if args.algorithm == "dqn" else ppo
    agent = train(args, env)
    steps = {"timesteps": args.steps // args.environments, "headless": True, "disable_progressbar": True}
    SequentialTrainer(cfg=steps, env=env, agents=agent).train()


def dqn(args, env):
    spaces = spaces_of(args, env)
    models = {name: Values(args, None, **spaces) for name in ("q_network", "target_q_network")}
    for model in models.values():
        model.init_state_dict(role="q_network")

    def epsilon(step, steps):
        share = min(1.0, step * args.environments / args.epsilon_steps)
        return args.epsilon_start + share * (args.epsilon_end - args.epsilon_start)

    memory = RandomMemory(
        memory_size=args.capacity // args.environments, num_envs=args.environments, device=args.device
    )
    cfg = DQN_CFG(
        gradient_steps=args.updates_per_train,
        batch_size=args.batch_size,
        discount_factor=args.gamma,
        polyak=1.0,
        learning_rate=args.learning_rate,
        # It counts steps of the vector of environments, and updates for its target network.
        learning_starts=args.learning_starts // args.environments,
        update_interval=max(1, args.train_every // args.environments),
        target_update_interval=max(1, args.target_sync * args.updates_per_train // args.train_every),
        exploration_scheduler=epsilon,
        experiment=QUIET,
    )
    return DQN(models=models, memory=memory, cfg=cfg, **spaces)


def ppo(args, env):
    spaces = spaces_of(args, env)
    models = {"policy": Policy(args, **spaces), "value": Values(args, 1, **spaces)}
    memory = RandomMemory(memory_size=args.rollout_steps, num_envs=args.environments, device=args.device)
    cfg = PPO_CFG(
        rollouts=args.rollout_steps,
        learning_epochs=args.epochs,
        mini_batches=args.minibatches,
        discount_factor=args.gamma,
        gae_lambda=args.gae_lambda,
        learning_rate=args.learning_rate,
        grad_norm_clip=args.max_grad_norm,
        ratio_clip=args.clip_range,
        value_clip=args.clip_range if args.value_clip else 0.0,
        entropy_loss_scale=args.entropy_coefficient,
        value_loss_scale=args.value_coefficient,
        # A time limit does not end the return.
        time_limit_bootstrap=True,
        experiment=QUIET,
    )
    return PPO(models=models, memory=memory, cfg=cfg, **spaces)


def spaces_of(args, env):
    return {
        "observation_space": env.observation_space,
        "action_space": env.action_space,
        "device": args.device,
    }


def arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--algorithm", choices=("dqn", "ppo"), default="ppo")
    parser.add_argument("--environment", default="CartPole-v1")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=50_000)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--cores", type=int, default=1)
    parser.add_argument("--gamma", type=float, default=0.99)
    parser.add_argument("--learning-rate", type=float, default=2.5e-4)
    parser.add_argument("--hidden", type=widths, default=[64, 64])
    parser.add_argument("--activation", choices=("relu", "tanh"), default="tanh")
    parser.add_argument("--environments", type=int, default=1)

    off_policy = parser.add_argument_group("DQN")
    off_policy.add_argument("--batch-size", type=int, default=128)
    off_policy.add_argument("--capacity", type=int, default=10_000)
    off_policy.add_argument("--learning-starts", type=int, default=1_000)
    off_policy.add_argument("--train-every", type=int, default=10)
    off_policy.add_argument("--updates-per-train", type=int, default=1)
    off_policy.add_argument("--target-sync", type=int, default=500)
    off_policy.add_argument("--epsilon-start", type=float, default=1.0)
    off_policy.add_argument("--epsilon-end", type=float, default=0.05)
    off_policy.add_argument("--epsilon-steps", type=int, default=10_000)

    on_policy = parser.add_argument_group("PPO")
    on_policy.add_argument("--rollout-steps", type=int, default=128)
    on_policy.add_argument("--minibatches", type=int, default=4)
    on_policy.add_argument("--epochs", type=int, default=4)
    on_policy.add_argument("--gae-lambda", type=float, default=0.95)
    on_policy.add_argument("--clip-range", type=float, default=0.2)
    on_policy.add_argument("--value-clip", type=yes, default=False)
    on_policy.add_argument("--entropy-coefficient", type=float, default=0.01)
    on_policy.add_argument("--value-coefficient", type=float, default=0.5)
    on_policy.add_argument("--max-grad-norm", type=float, default=0.5)
    return parser.parse_args()


def widths(text):
    """`(64, 64)` or `64,64` → [64, 64]."""
    return json.loads(f"[{text.strip('()[] ').rstrip(',')}]")


def yes(text):
    return text.lower() == "true"


if __name__ == "__main__":
    main()
