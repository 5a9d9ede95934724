"""From results to answers: the comparison table, plain sentences, the terminal."""
