"""The open division: whole loops, measured apart from the contestants of the closed one."""
