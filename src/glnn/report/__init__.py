"""Reports: run folders, tables, pictures and pages."""
