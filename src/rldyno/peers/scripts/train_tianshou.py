"""DQN and PPO with Tianshou, as its users write it: the guest `script:tianshou`."""

import argparse
import json

import gymnasium as gym
import numpy as np
import torch
from tianshou.algorithm import DQN, PPO
from tianshou.algorithm.modelfree.dqn import DiscreteQLearningPolicy
from tianshou.algorithm.modelfree.reinforce import DiscreteActorPolicy
from tianshou.algorithm.optim import AdamOptimizerFactory
from tianshou.data import Collector, CollectStats, VectorReplayBuffer
from tianshou.env import DummyVectorEnv
from tianshou.trainer import OffPolicyTrainerParams, OnPolicyTrainerParams
from tianshou.utils.net.common import Net
from tianshou.utils.net.discrete import DiscreteActor, DiscreteCritic

ACTIVATIONS = {"relu": torch.nn.ReLU, "tanh": torch.nn.Tanh}


def main() -> None:
    args = arguments()
    torch.set_num_threads(args.cores)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)
    envs = DummyVectorEnv([lambda: gym.make(args.environment) for _ in range(args.environments)])
    envs.seed(args.seed)
    train = dqn if args.algorithm == "dqn" else ppo
    train(args, envs, envs.observation_space[0], envs.action_space[0])


def dqn(args, envs, observations, actions):
    net = Net(
        state_shape=observations.shape,
        action_shape=actions.n,
        hidden_sizes=args.hidden,
        activation=ACTIVATIONS[args.activation],
        dueling_param=({}, {}) if args.dueling else None,
    ).to(args.device)
    policy = DiscreteQLearningPolicy(model=net, action_space=actions, eps_training=args.epsilon_start)
    algorithm = DQN(
        policy=policy,
        optim=adam(args),
        gamma=args.gamma,
        n_step_return_horizon=args.n_step,
        # It counts updates.
        target_update_freq=max(1, args.target_sync * args.updates_per_train // args.train_every),
        is_double=args.double,
        huber_loss_delta=args.huber_delta,
    )
    memory = VectorReplayBuffer(args.capacity, args.environments)
    collector = Collector[CollectStats](algorithm, envs, memory, exploration_noise=True)
    collector.reset()
    collector.collect(n_step=args.learning_starts, random=True)

    def explore(epoch: int, step: int) -> None:
        share = min(1.0, (args.learning_starts + step) / args.epsilon_steps)
        policy.set_eps_training(args.epsilon_start + share * (args.epsilon_end - args.epsilon_start))

    algorithm.run_training(
        OffPolicyTrainerParams(
            training_collector=collector,
            max_epochs=1,
            epoch_num_steps=args.steps - args.learning_starts,
            collection_step_num_env_steps=args.train_every,
            update_step_num_gradient_steps_per_sample=args.updates_per_train / args.train_every,
            batch_size=args.batch_size,
            training_fn=explore,
            verbose=False,
            show_progress=False,
        )
    )


def ppo(args, envs, observations, actions):
    def torso():
        activation = ACTIVATIONS[args.activation]
        return Net(state_shape=observations.shape, hidden_sizes=args.hidden, activation=activation)

    actor = DiscreteActor(preprocess_net=torso(), action_shape=actions.n, softmax_output=False)
    critic = DiscreteCritic(preprocess_net=torso())
    policy = DiscreteActorPolicy(actor=actor.to(args.device), action_space=actions)
    algorithm = PPO(
        policy=policy,
        critic=critic.to(args.device),
        optim=adam(args),
        gamma=args.gamma,
        gae_lambda=args.gae_lambda,
        eps_clip=args.clip_range,
        value_clip=args.value_clip,
        advantage_normalization=args.normalise_advantage,
        ent_coef=args.entropy_coefficient,
        vf_coef=args.value_coefficient,
        # 0 means that gradients are not clipped.
        max_grad_norm=args.max_grad_norm or None,
    )
    rollout = args.environments * args.rollout_steps
    memory = VectorReplayBuffer(rollout, args.environments)
    collector = Collector[CollectStats](algorithm, envs, memory)
    collector.reset()
    algorithm.run_training(
        OnPolicyTrainerParams(
            training_collector=collector,
            max_epochs=1,
            epoch_num_steps=args.steps,
            collection_step_num_env_steps=rollout,
            update_step_num_repetitions=args.epochs,
            batch_size=rollout // args.minibatches,
            verbose=False,
            show_progress=False,
        )
    )


def adam(args):
    betas = args.adam_beta1, args.adam_beta2
    return AdamOptimizerFactory(lr=args.learning_rate, betas=betas, eps=args.adam_eps)


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
    parser.add_argument("--adam-beta1", type=float, default=0.9)
    parser.add_argument("--adam-beta2", type=float, default=0.999)
    parser.add_argument("--adam-eps", type=float, default=1e-5)
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
    off_policy.add_argument("--double", type=yes, default=False)
    off_policy.add_argument("--dueling", type=yes, default=False)
    off_policy.add_argument("--huber-delta", type=float, default=1.0)

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
    on_policy.add_argument("--max-grad-norm", type=float, default=0.5)
    return parser.parse_args()


def widths(text):
    """`(64, 64)` or `64,64` → [64, 64]."""
    return json.loads(f"[{text.strip('()[] ').rstrip(',')}]")


def yes(text):
    return text.lower() == "true"


if __name__ == "__main__":
    main()
