"""Read and write data sets, tables and graphs as checked records; split their nodes."""

from glnn.data.datasets import DATASETS, DatasetInfo, fetch_dataset, load_dataset
from glnn.data.encode import encode_frame
from glnn.data.formats import read_data, write_data, write_graph, write_predictions
from glnn.data.node_data import NodeData
from glnn.data.splits import Split, make_split
from glnn.data.table_text import TableOptions
from glnn.data.tables import TableReport, read_tables

__all__ = [
    "DATASETS",
    "DatasetInfo",
    "NodeData",
    "Split",
    "TableOptions",
    "TableReport",
    "encode_frame",
    "fetch_dataset",
    "load_dataset",
    "make_split",
    "read_data",
    "read_tables",
    "write_data",
    "write_graph",
    "write_predictions",
]
