"""The command line; heavy imports are inside the commands, so that it starts quickly."""
