"""Records of a results directory as one table: its columns, what is missing and why, and its exports."""
