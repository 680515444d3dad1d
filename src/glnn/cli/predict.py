"""``glnn predict``: classify new rows with the model of a run."""

import csv
import sys
from pathlib import Path
from typing import Annotated

import typer

EXAMPLES = """[bold]Examples[/bold]

glnn predict runs/people-default-0 new.csv  [dim]# ids, labels and probabilities as CSV[/dim]

glnn predict runs/people-default-0 new.csv --links friends_of_new.csv --out jobs_of_new.csv"""


def predict(
    run: Annotated[Path, typer.Argument(help="Run folder of glnn fit.", show_default=False)],
    new: Annotated[
        Path,
        typer.Argument(
            metavar="NEW.csv",
            help="Table with the columns of the training data, found by name.",
            show_default=False,
        ),
    ],
    links: Annotated[
        Path | None, typer.Option(help="Edge list between new ids and training ids.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="File for ids, labels and all probabilities; else they are printed."),
    ] = None,
    spreadsheet_safe: Annotated[
        bool,
        typer.Option(help="Mark text in FILE that a spreadsheet would run as a formula."),
    ] = True,
) -> None:
    """Classify rows that were not there in training, by their best links to those that were."""
    from glnn.data import write_predictions
    from glnn.report.new_rows import predict_rows
    from glnn.report.words import count

    found = predict_rows(run, new, links)
    for note in found.notes:
        typer.echo(f"glnn: note: {note}", err=True)
    if out is None:
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(["id", "label", "probability"])
        chances = (f"{chance:.6g}" for chance in found.confidence)
        writer.writerows(zip(found.ids.tolist(), found.labels.tolist(), chances))
    else:
        answers = (found.ids, found.labels, found.probabilities, found.classes)
        write_predictions(out, *answers, spreadsheet_safe=spreadsheet_safe)
        typer.echo(f"{count(len(found.ids), 'row')} in {out}")
    for line in found.judged.lines():
        typer.echo(f"glnn: note: {line}", err=True)
