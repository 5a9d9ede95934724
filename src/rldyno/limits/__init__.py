"""What a machine can do at best, and what that makes of one call of a network: its floor."""
