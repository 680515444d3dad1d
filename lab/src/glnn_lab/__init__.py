"""The laboratory of glnn: what the paper measured, methods to compare with, benches."""
