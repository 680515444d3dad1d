"""``glnn reproduce``: run a table or figure and compare our numbers with the published ones."""

import time
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from glnn.cli.fit_command import stop_on_signal


def split_names(text: str | None) -> tuple[str, ...] | None:
    """Split an option at its commas.

    Examples
    --------
    >>> split_names("cora, citeseer")
    ('cora', 'citeseer')
    """
    if text is None:
        return None
    return tuple(name for part in text.split(",") if (name := part.strip()))


EXAMPLES = """[bold]Examples[/bold]

glnn reproduce table1 --datasets cora --methods glnn,gcn --seeds 2

glnn reproduce robustness --jobs 8  [dim]# if it was killed, the same command resumes[/dim]

glnn reproduce all --jobs -1 --out results"""

_ADVICE = "Finished cells are kept; the same command resumes."

_Target = Annotated[
    str,
    typer.Argument(
        metavar="TARGET",
        help="table1 (methods by data sets), table2 (weight of the GLR), robustness (few labels, "
        "damaged graphs), adjacency (pictures of learned graphs), accuracy (compared with "
        "published graph learners, and an ablation), or all of them.",
        show_default=False,
    ),
]
_Seeds = Annotated[
    int | None, typer.Option(min=1, help="Runs per number; 10 by default, fewer for slow methods.")
]
_Datasets = Annotated[
    str | None, typer.Option(help="Names separated by commas; else those of the target.")
]
_Methods = Annotated[
    str | None,
    typer.Option(
        help="Names separated by commas; glnn means its presets default, paper and literal "
        "(glnn-default alone), all means all."
    ),
]
_Jobs = Annotated[int, typer.Option(help="Processes at once; -1 takes all cores.")]
_Resume = Annotated[
    bool, typer.Option("--resume/--no-resume", help="Keep finished cells, or run all again.")
]
_Out = Annotated[Path, typer.Option(help="Folder; targets in one folder share their runs.")]
_DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Count cells and expected time, and run nothing.")
]
_Run = Annotated[
    bool, typer.Option("--run/--no-run", help="Run, or only write the pages of recorded results.")
]
_Quiet = Annotated[bool, typer.Option("--quiet", help="Print nothing but errors.")]


def register(commands: typer.Typer) -> None:
    """Add ``glnn reproduce`` to the commands; the entry point of the package."""
    commands.command(epilog=EXAMPLES)(reproduce)


def reproduce(
    target: _Target,
    seeds: _Seeds = None,
    datasets: _Datasets = None,
    methods: _Methods = None,
    jobs: _Jobs = 2,
    resume: _Resume = True,
    out: _Out = Path("runs/reproduce"),
    dry_run: _DryRun = False,
    run: _Run = True,
    quiet: _Quiet = False,
) -> None:
    """Run a table or figure and compare our numbers with the published ones."""
    from glnn_lab.pages import reproduction

    wanted = reproduction.RunRequest(seeds, split_names(datasets), split_names(methods), jobs)
    targets = reproduction.resolve_targets(target)
    for one in targets:  # check all names before the first target runs
        wanted.choose_blocks(one)
    console, done = Console(quiet=quiet), []
    if dry_run:
        _print_plan(console, targets, wanted, out)
        return
    if not resume and run:
        reproduction.delete_records(targets, out, wanted)
    for one in targets:
        if not run:
            done.append(reproduction.report_recorded(one, out, wanted))
            continue
        with stop_on_signal(_ADVICE) as stoppable, GridBar(console, one.name) as bar:
            done.append(reproduction.run_target(one, out, wanted, stoppable(bar.show)))
        _print(console, done[-1])
    if target == "all":
        reproduction.write_index(done, out)
    if any(one.n_failed for one in done):
        raise typer.Exit(1)


class GridBar:
    """A progress bar on a terminal; elsewhere a line after every tenth of the cells."""

    def __init__(self, console: Console, name: str) -> None:
        self._console, self._name, self._tenth = console, name, -1
        self._began, self._n_before = time.monotonic(), 0
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("cells"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=console,
            transient=True,
            disable=console.quiet or not console.is_terminal,
        )
        self._task = self._bar.add_task(name, total=None)

    def __enter__(self) -> "GridBar":
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def show(self, event: Any) -> None:
        """Show a finished cell."""
        if event.record is None:  # cells of an earlier run do not count for the speed
            self._began, self._n_before = time.monotonic(), event.n_done
            self._bar.reset(self._task, total=event.n_cells, completed=event.n_done)
        else:
            last = f"{self._name}: {event.record['method']}, {event.record['dataset']}"
            self._bar.update(self._task, completed=event.n_done, description=last)
        tenth = 10 * event.n_done // event.n_cells
        if not self._console.is_terminal and tenth != self._tenth:
            text = f"{self._name}: {event.n_done} of {event.n_cells} cells{self._time_left(event)}"
            self._console.print(text, markup=False, highlight=False)
        self._tenth = tenth

    def _time_left(self, event: Any) -> str:
        n_new = event.n_done - self._n_before
        if n_new == 0 or event.n_done == event.n_cells:
            return ""
        seconds = (time.monotonic() - self._began) / n_new * (event.n_cells - event.n_done)
        return f", about {seconds / 60:.1f} min left"


def _print(console: Console, done: Any) -> None:
    from glnn_lab.pages.goal_tables import ablation_table, goals_table
    from glnn_lab.pages.paper_tables import block_notes, block_tables

    for block in done.blocks:
        for table in block_tables(block)[:2]:
            console.print(table.rich())
        for line in block_notes(block):
            console.print(line, markup=False, highlight=False)
    for summary in (ablation_table(done.blocks), goals_table(done.blocks)):
        if summary is not None:
            console.print(summary.rich())
    console.print(f"page: {done.page_path}", markup=False, highlight=False, soft_wrap=True)


def _print_plan(console: Console, targets: Any, wanted: Any, out: Path) -> None:
    from glnn_lab.pages.reproduction import describe_plan, plan_table, plan_targets

    plan = plan_targets(targets, wanted, out)
    console.print(plan_table(plan).rich())
    console.print(describe_plan(plan), markup=False, highlight=False, soft_wrap=True)
