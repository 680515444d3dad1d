"""Results to people: run folders, tables, pictures and pages."""
