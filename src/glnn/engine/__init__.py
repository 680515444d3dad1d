"""A fit: settings, tasks, training loop, rounds of graph step and classifier step, saved models."""
