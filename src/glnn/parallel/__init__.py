"""One fit over several processes, each with a block of the rows."""
