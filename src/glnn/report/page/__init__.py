"""The report page: one HTML file to explore a fit with, without a network."""

from glnn.report.page.data import PageData
from glnn.report.page.document import render

__all__ = ["PageData", "render"]
