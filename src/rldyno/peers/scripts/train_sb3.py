"""DQN and PPO with Stable-Baselines3, as its users write it: the guest `script:sb3`."""

import argparse
import json

import torch
from stable_baselines3 import DQN, PPO
from stable_baselines3.common.env_util import make_vec_env

ACTIVATIONS = {"relu": torch.nn.ReLU, "tanh": torch.nn.Tanh}


def main() -> None:
    args = arguments()
    torch.set_num_threads(args.cores)
    envs = make_vec_env(args.environment, n_envs=args.environments, seed=args.seed)

    def learning_rate(remaining: float) -> float:
        share = min(1.0, (1.0 - remaining) * args.steps / args.schedule_steps)
        return float(args.learning_rate + share * (args.learning_rate_end - args.learning_rate))

    train = dqn if args.algorithm == "dqn" else ppo
    model = train(
        args,
        policy="MlpPolicy",
        env=envs,
        learning_rate=learning_rate,
        gamma=args.gamma,
        # 0 means that gradients are not clipped.
        max_grad_norm=args.max_grad_norm or float("inf"),
        seed=args.seed,
        device=args.device,
        policy_kwargs={
            "net_arch": args.hidden,
            "activation_fn": ACTIVATIONS[args.activation],
            "optimizer_kwargs": {"betas": (args.adam_beta1, args.adam_beta2), "eps": args.adam_eps},
        },
    )
    model.learn(total_timesteps=args.steps, log_interval=None)


def dqn(args, **shared):
    return DQN(
        **shared,
        batch_size=args.batch_size,
        buffer_size=args.capacity,
        learning_starts=args.learning_starts,
        # It counts steps of the vector of environments.
        train_freq=max(1, args.train_every // args.environments),
        gradient_steps=args.updates_per_train,
        target_update_interval=args.target_sync,
        n_steps=args.n_step,
        exploration_initial_eps=args.epsilon_start,
        exploration_final_eps=args.epsilon_end,
        exploration_fraction=min(1.0, args.epsilon_steps / args.steps),
    )


def ppo(args, **shared):
    return PPO(
        **shared,
        n_steps=args.rollout_steps,
        batch_size=args.environments * args.rollout_steps // args.minibatches,
        n_epochs=args.epochs,
        gae_lambda=args.gae_lambda,
        clip_range=args.clip_range,
        clip_range_vf=args.clip_range if args.value_clip else None,
        normalize_advantage=args.normalise_advantage,
        ent_coef=args.entropy_coefficient,
        vf_coef=args.value_coefficient,
    )


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
    parser.add_argument("--learning-rate-end", type=float, default=2.5e-4)
    parser.add_argument("--schedule-steps", type=int, default=100_000)
    parser.add_argument("--hidden", type=widths, default=[64, 64])
    parser.add_argument("--activation", choices=("relu", "tanh"), default="tanh")
    parser.add_argument("--adam-beta1", type=float, default=0.9)
    parser.add_argument("--adam-beta2", type=float, default=0.999)
    parser.add_argument("--adam-eps", type=float, default=1e-5)
    parser.add_argument("--max-grad-norm", type=float, default=0.5)
    parser.add_argument("--environments", type=int, default=1)

    off_policy = parser.add_argument_group("DQN")
    off_policy.add_argument("--batch-size", type=int, default=128)
    off_policy.add_argument("--capacity", type=int, default=10_000)
    off_policy.add_argument("--learning-starts", type=int, default=1_000)
    off_policy.add_argument("--train-every", type=int, default=10)
    off_policy.add_argument("--updates-per-train", type=int, default=1)
    off_policy.add_argument("--target-sync", type=int, default=500)
    off_policy.add_argument("--n-step", type=int, default=1)
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
    on_policy.add_argument("--normalise-advantage", type=yes, default=True)
    on_policy.add_argument("--entropy-coefficient", type=float, default=0.01)
    on_policy.add_argument("--value-coefficient", type=float, default=0.5)
    return parser.parse_args()


def widths(text):
    """`(64, 64)` or `64,64` → [64, 64]."""
    return json.loads(f"[{text.strip('()[] ').rstrip(',')}]")


def yes(text):
    return text.lower() == "true"


if __name__ == "__main__":
    main()
