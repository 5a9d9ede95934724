"""Results that travel: a directory as one file and back, and many such files as one page."""
