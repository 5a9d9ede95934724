"""The files of a results directory: written atomically, read with care, locked."""
