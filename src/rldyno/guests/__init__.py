"""Scripts of the user's as contestants: where they are, whether they may run, and what runs them."""
