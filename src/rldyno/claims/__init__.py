"""Claims as data: a statement, the query that decides it, and the verdict that results give."""
