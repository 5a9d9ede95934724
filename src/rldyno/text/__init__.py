"""How numbers and tables are written for people."""
