"""DQN and PPO with TorchRL, as its users write it: the guest `script:torchrl`."""

import argparse
import json

import torch
from tensordict.nn import TensorDictModule, TensorDictSequential
from torchrl.collectors import Collector
from torchrl.data import LazyTensorStorage, TensorDictReplayBuffer
from torchrl.data.replay_buffers.samplers import SamplerWithoutReplacement
from torchrl.envs import ExplorationType, GymEnv, SerialEnv
from torchrl.modules import MLP, EGreedyModule, ProbabilisticActor, QValueActor, ValueOperator
from torchrl.objectives import ClipPPOLoss, DQNLoss, HardUpdate
from torchrl.objectives.value import GAE

ACTIVATIONS = {"relu": torch.nn.ReLU, "tanh": torch.nn.Tanh}


def main() -> None:
    args = arguments()
    torch.set_num_threads(args.cores)
    torch.manual_seed(args.seed)

    def make_env():
        return GymEnv(args.environment, categorical_action_encoding=True, device=args.device)

    env = make_env() if args.environments == 1 else SerialEnv(args.environments, make_env)
    env.set_seed(args.seed)
    (dqn if args.algorithm == "dqn" else ppo)(args, env)


def dqn(args, env):
    spec = env.action_spec_unbatched
    values = QValueActor(network(args, env, spec.space.n), in_keys=["observation"], spec=spec)
    exploration = EGreedyModule(
        spec=spec,
        eps_init=args.epsilon_start,
        eps_end=args.epsilon_end,
        annealing_num_steps=args.epsilon_steps,
    )
    collector = Collector(
        env,
        TensorDictSequential(values, exploration),
        frames_per_batch=args.train_every,
        total_frames=args.steps,
        init_random_frames=args.learning_starts,
        exploration_type=ExplorationType.RANDOM,
    )
    memory = TensorDictReplayBuffer(storage=LazyTensorStorage(args.capacity), batch_size=args.batch_size)
    loss = DQNLoss(values, loss_function="smooth_l1", delay_value=True, double_dqn=args.double)
    loss.make_value_estimator(gamma=args.gamma)
    # It counts updates.
    interval = max(1, args.target_sync * args.updates_per_train // args.train_every)
    target = HardUpdate(loss, value_network_update_interval=interval)
    optimiser = adam(args, loss)
    steps = 0
    for data in collector:
        exploration.step(data.numel())
        memory.extend(data.reshape(-1))
        steps += data.numel()
        if steps < args.learning_starts:
            continue
        set_learning_rate(args, optimiser, steps)
        for _ in range(args.updates_per_train):
            descend(args, optimiser, loss, loss(memory.sample())["loss"])
            target.step()
    collector.shutdown()


def ppo(args, env):
    spec = env.action_spec_unbatched
    actor = ProbabilisticActor(
        TensorDictModule(network(args, env, spec.space.n), in_keys=["observation"], out_keys=["logits"]),
        in_keys=["logits"],
        spec=spec,
        distribution_class=torch.distributions.Categorical,
        return_log_prob=True,
    )
    critic = ValueOperator(network(args, env, 1), in_keys=["observation"])
    rollout = args.environments * args.rollout_steps
    collector = Collector(env, actor, frames_per_batch=rollout, total_frames=args.steps)
    memory = TensorDictReplayBuffer(
        storage=LazyTensorStorage(rollout),
        sampler=SamplerWithoutReplacement(),
        batch_size=rollout // args.minibatches,
    )
    advantage = GAE(gamma=args.gamma, lmbda=args.gae_lambda, value_network=critic)
    loss = ClipPPOLoss(
        actor,
        critic,
        clip_epsilon=args.clip_range,
        clip_value=args.value_clip,
        entropy_coeff=args.entropy_coefficient,
        critic_coeff=args.value_coefficient,
        loss_critic_type="l2",
        normalize_advantage=args.normalise_advantage,
    )
    optimiser = adam(args, loss)
    steps = 0
    for data in collector:
        set_learning_rate(args, optimiser, steps)
        steps += data.numel()
        with torch.no_grad():
            advantage(data)
        memory.extend(data.reshape(-1))
        for _ in range(args.epochs):
            for batch in memory:
                found = loss(batch)
                total = found["loss_objective"] + found["loss_critic"] + found["loss_entropy"]
                descend(args, optimiser, loss, total)
    collector.shutdown()


def network(args, env, outputs):
    return MLP(
        in_features=env.observation_spec["observation"].shape[-1],
        out_features=outputs,
        num_cells=args.hidden,
        activation_class=ACTIVATIONS[args.activation],
        device=args.device,
    )


def adam(args, loss):
    betas = args.adam_beta1, args.adam_beta2
    return torch.optim.Adam(loss.parameters(), lr=args.learning_rate, betas=betas, eps=args.adam_eps)


def set_learning_rate(args, optimiser, steps):
    share = min(1.0, steps / args.schedule_steps)
    for group in optimiser.param_groups:
        group["lr"] = args.learning_rate + share * (args.learning_rate_end - args.learning_rate)


def descend(args, optimiser, module, loss):
    loss.backward()
    # 0 means that gradients are not clipped.
    if args.max_grad_norm:
        torch.nn.utils.clip_grad_norm_(module.parameters(), args.max_grad_norm)
    optimiser.step()
    optimiser.zero_grad()


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
    off_policy.add_argument("--epsilon-start", type=float, default=1.0)
    off_policy.add_argument("--epsilon-end", type=float, default=0.05)
    off_policy.add_argument("--epsilon-steps", type=int, default=10_000)
    off_policy.add_argument("--double", type=yes, default=False)

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
