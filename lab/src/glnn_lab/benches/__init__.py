"""Benchmarks of time, memory and growth, compared with other programs."""
