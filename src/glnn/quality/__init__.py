"""Whether an answer is any good, and how it compares with plain methods."""
