"""Label rows, learn, look, and again: a session on disk, a page and a notebook widget."""

from glnn.studio.session import LabelSession

__all__ = ["LabelSession"]
