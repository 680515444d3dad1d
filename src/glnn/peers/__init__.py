"""The processes of one fit: what they tell each other, and which rows are whose."""

from glnn.peers.base import ALONE, Peers
from glnn.peers.partition import Partition

__all__ = ["ALONE", "Partition", "Peers"]
