"""The options of ``glnn fit``, each with the words of its help."""

from pathlib import Path
from typing import Annotated

import typer

_TABLE, _METHOD, _OUTPUT = "Your own table", "Method", "Output"

Name = Annotated[
    str,
    typer.Argument(
        metavar="NAME|FILE",
        help="A data set (digits, wine, breast_cancer, blobs, block_model; cora, citeseer, pubmed, "
        "terrorattack, terroristsrel) or a file (.csv, .tsv, .parquet, .npz, .graphml).",
        show_default=False,
    ),
]
LabelFile = Annotated[
    Path | None,
    typer.Option(
        "--labels", help="Table of ids and labels, if not in FILE.", rich_help_panel=_TABLE
    ),
]
GraphFile = Annotated[
    Path | None,
    typer.Option(
        "--graph", help="Edge list: source, target, perhaps weight.", rich_help_panel=_TABLE
    ),
]
IdColumn = Annotated[
    str | None,
    typer.Option("--id", help="Column of ids; 'id' if there is one.", rich_help_panel=_TABLE),
]
LabelColumn = Annotated[
    str | None,
    typer.Option(
        "--label",
        help="Column of labels; 'label' if there is one. Empty cells are to be found.",
        rich_help_panel=_TABLE,
    ),
]
OnUnknown = Annotated[
    str,
    typer.Option(
        help="Labels and edges of ids that FILE lacks: error or drop.", rich_help_panel=_TABLE
    ),
]
Encode = Annotated[
    str, typer.Option(help="Columns of text: error or onehot.", rich_help_panel=_TABLE)
]
LabelsPerClass = Annotated[
    int | None,
    typer.Option(
        help="Train on so many labels of each class and test on all others. Without it: the "
        "published split; 20 a class for data that come with glnn; every label of your own table.",
        rich_help_panel=_METHOD,
    ),
]
NoGraph = Annotated[
    bool, typer.Option("--no-graph", help="Ignore a given graph.", rich_help_panel=_METHOD)
]
Preset = Annotated[
    str,
    typer.Option(
        help="default (our best), paper (the paper's terms, solved exactly) or literal (the "
        "paper's optimiser as printed).",
        rich_help_panel=_METHOD,
    ),
]
Head = Annotated[
    str | None,
    typer.Option(help="Network: gcn or propagation; else the preset's.", rich_help_panel=_METHOD),
]
Neighbors = Annotated[
    int | None,
    typer.Option(
        "--n-neighbors", help="Mean number of learned neighbours.", rich_help_panel=_METHOD
    ),
]
Epochs = Annotated[
    int | None, typer.Option(help="Epochs of each classifier step.", rich_help_panel=_METHOD)
]
Seed = Annotated[int, typer.Option(help="Of the drawn labels and of the fit.")]
Device = Annotated[str, typer.Option(help="cpu, cuda, cuda:1, ...")]
Threads = Annotated[
    int | None, typer.Option(help="Processor threads; else 1 below 10,000 nodes, all above.")
]
Compare = Annotated[
    bool,
    typer.Option(
        "--compare",
        help="Also run logistic regression, label spreading and a kNN-graph GCN, same labels.",
        rich_help_panel=_OUTPUT,
    ),
]
Out = Annotated[
    Path | None,
    typer.Option(help="Run folder; else runs/NAME-PRESET-SEED.", rich_help_panel=_OUTPUT),
]
Overwrite = Annotated[
    bool, typer.Option("--overwrite", help="Replace an old run.", rich_help_panel=_OUTPUT)
]
Checkpoint = Annotated[
    Path | None,
    typer.Option(
        help="Folder for the state after each round; a fit that was interrupted goes on from it.",
        rich_help_panel=_OUTPUT,
    ),
]
Quiet = Annotated[
    bool, typer.Option("--quiet", help="Print nothing but errors.", rich_help_panel=_OUTPUT)
]
