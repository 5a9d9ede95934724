"""What is missing on this machine, and what difference it can show."""
