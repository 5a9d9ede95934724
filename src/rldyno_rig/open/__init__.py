"""The open division: each framework's best whole loop, environment included, apart from the closed one."""
