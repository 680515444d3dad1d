"""Time, memory and growth, beside what people use instead."""
