"""From results to answers: comparisons, advice, break-evens, learning parity, and their plain words."""
