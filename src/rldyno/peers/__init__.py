"""Libraries of reinforcement learning as ready-made guests: `script:sb3` and others."""
