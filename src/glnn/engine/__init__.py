"""The one training loop, and the rounds of graph step and classifier step."""
