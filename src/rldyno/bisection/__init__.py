"""Which release of a framework made a figure move."""
