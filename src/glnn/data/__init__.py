"""From files to checked records: data sets, tables, graphs, splits and perturbations."""
