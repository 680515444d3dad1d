"""The report page: one HTML file to explore a fit with, without a network."""
