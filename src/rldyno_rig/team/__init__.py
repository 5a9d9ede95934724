"""Several workers that train one agent: how they meet, agree, and average their gradients."""
