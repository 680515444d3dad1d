"""Tables, figures and pages of the paper and of the benches."""
