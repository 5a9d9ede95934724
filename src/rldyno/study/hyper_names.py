"""Hyper-parameters as other libraries call them, and what rldyno calls them."""

from __future__ import annotations

from collections.abc import Iterable

from rldyno.toml.suggestions import did_you_mean, suggest

OTHER_NAMES = {
    "activation": "act activation_fn nonlinearity",
    "adam_beta1": "b1 beta1 betas",
    "adam_beta2": "b2 beta2 betas",
    "adam_eps": "eps epsilon optimizer_eps",
    "atoms": "n_atoms num_atoms",
    "batch_size": "batch bs minibatch minibatch_size mini_batch_size",
    "capacity": "buffer buffer_size memory memory_size replay_size replay_capacity",
    "clip_range": "clip clip_coef clip_param clip_ratio cliprange",
    "convolutions": "cnn conv convs filters",
    "entropy_coefficient": "ent_coef entropy entropy_coef",
    "environments": "envs n_env n_envs nenvs num_env num_envs",
    "epochs": "k_epochs n_epochs num_epochs update_epochs",
    "epsilon_end": "end_e eps epsilon eps_end eps_min exploration_final_eps final_epsilon min_epsilon",
    "epsilon_start": "epsilon eps_start exploration_initial_eps start_e",
    "epsilon_steps": "eps_decay eps_steps epsilon_decay exploration_fraction exploration_steps",
    "gae_lambda": "gae lam lambda lambda_ lmbda",
    "gamma": "discount discount_factor",
    "hidden": "hidden_dim hidden_layers hidden_size hidden_sizes layers net_arch units width",
    "learning_rate": "alpha eta lr stepsize step_size",
    "learning_rate_end": "final_lr lr_end min_lr",
    "learning_starts": "start_steps warmup warmup_steps",
    "max_grad_norm": "clip_grad clip_grad_norm clipnorm grad_clip max_grad",
    "minibatches": "batch batch_size bs n_minibatches num_minibatches nminibatches",
    "n_step": "multi_step n_steps nstep",
    "noisy_sigma": "sigma sigma0",
    "normalise_advantage": "adv_norm norm_adv normalize_advantage",
    "priority_beta_start": "beta beta0 per_beta",
    "priority_exponent": "alpha per_alpha",
    "rollout_steps": "horizon n_steps num_steps rollout rollout_length t_max",
    "schedule_steps": "anneal_steps decay_steps",
    "target_sync": "target_network_frequency target_update target_update_freq target_update_interval",
    "train_every": "train_freq train_frequency update_every update_freq",
    "updates_per_train": "gradient_steps",
    "value_coefficient": "value_coef vf_coef",
}
"""Name of a hyper-parameter → what other libraries and papers call it. One such word may mean several."""


def suggest_hyper(name: str, known: Iterable[str]) -> str:
    """What follows "unknown hyper-parameter": those known by that word elsewhere, else the nearest name."""
    known = list(known)
    word = name.lower()
    meant = [field for field in known if word in OTHER_NAMES.get(field, "").split()]
    if meant:
        return did_you_mean(meant)
    return suggest(name, known) or "; `rldyno hyper ALGORITHM` lists them"
