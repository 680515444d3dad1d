"""Commands of the laboratory; each adds itself to those of ``glnn``."""
