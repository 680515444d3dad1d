"""``glnn bench``: time, memory and growth, compared with other programs."""

import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from typer.core import TyperGroup

from glnn_lab.cli.reproduce import split_names

if TYPE_CHECKING:
    from collections.abc import Callable

EXAMPLES = """[bold]Examples[/bold]

glnn bench --datasets cora,citeseer,pubmed --threads 2

glnn bench first --sizes 1000,5000

glnn bench growth --sizes 10000,20000,50000,100000,200000

glnn bench scale --size arxiv

glnn bench processes --data cora,100000 --processes 1,2

glnn bench floor --dataset cora

glnn bench revisions ../glnn-before --datasets cora"""


class _CompareByDefault(TyperGroup):
    """A command group whose default command is ``compare``."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if not args or (args[0].startswith("-") and args[0] != "--help"):
            args = ["compare", *args]
        return super().parse_args(ctx, args)


app = typer.Typer(
    cls=_CompareByDefault,
    help="Measure time, memory and growth, compared with other programs.",
    epilog=EXAMPLES,
    rich_markup_mode="rich",
)


def register(commands: typer.Typer) -> None:
    """Add ``glnn bench`` to the commands; the entry point of the package."""
    commands.add_typer(app, name="bench")


_Threads = Annotated[int | None, typer.Option(min=1, help="Processor threads; else all cores.")]
_Out = Annotated[Path, typer.Option(help="Folder for JSON and Markdown.")]
_Quiet = Annotated[bool, typer.Option("--quiet", help="Print nothing but errors.")]
_DEFAULT_OUT = Path("runs/bench")


@app.command("compare")
def compare_methods(
    datasets: Annotated[
        str | None,
        typer.Option(help="Names separated by commas; else cora, or 'generated' without it."),
    ] = None,
    methods: Annotated[
        str | None, typer.Option(help="Names separated by commas; else all of them.")
    ] = None,
    repeats: Annotated[int, typer.Option(min=1, help="Interleaved repeats.")] = 7,
    threads: _Threads = None,
    memory: Annotated[
        bool, typer.Option("--memory/--no-memory", help="Also measure peak memory.")
    ] = True,
    out: _Out = _DEFAULT_OUT,
    quiet: _Quiet = False,
) -> None:
    """Time the presets and other methods in turn (the default); memory in separate processes."""
    from glnn_lab.benches.compare import BenchPlan, default_datasets, run_bench
    from glnn_lab.benches.contenders import CONTENDERS

    plan = BenchPlan(
        tuple(split_names(datasets) or default_datasets()),
        tuple(split_names(methods) or CONTENDERS),
        repeats,
        threads or _cores(),
        memory,
    )
    with _report_results(out, "compare", quiet) as (watch, keep):
        run_bench(plan, watch, keep)


@app.command()
def first(
    sizes: Annotated[
        str, typer.Option(help="Numbers of rows separated by commas.")
    ] = "1000,5000,20000",
    busy: Annotated[int, typer.Option(min=0, help="Other processes that only compute.")] = 2,
    epochs: Annotated[
        int | None, typer.Option(min=1, help="Epochs of each classifier step; else the default's.")
    ] = None,
    out: _Out = _DEFAULT_OUT,
    quiet: _Quiet = False,
) -> None:
    """Time glnn fit of a table with 100 labels, alone and beside busy processes."""
    from glnn_lab.benches.first import run_first

    numbers = _whole_numbers("--sizes", sizes)
    with _report_results(out, "first", quiet) as (watch, keep):
        run_first(numbers, n_busy=busy, n_epochs=epochs, watch=watch, keep=keep)


@app.command()
def growth(
    sizes: Annotated[
        str, typer.Option(help="Numbers of nodes separated by commas.")
    ] = "10000,20000,50000,100000,200000",
    tasks: Annotated[
        str | None, typer.Option(help="Names separated by commas; else all of them.")
    ] = None,
    epochs: Annotated[
        int, typer.Option(min=1, help="Epochs of each classifier step of the whole fit.")
    ] = 10,
    exact_up_to: Annotated[
        int, typer.Option(help="Leave larger sizes out of the exact search.")
    ] = 100_000,
    threads: _Threads = None,
    out: _Out = _DEFAULT_OUT,
    quiet: _Quiet = False,
) -> None:
    """Measure how time and memory grow with the number of nodes, at fixed mean degree."""
    from glnn_lab.benches.growth import TASKS, run_growth

    with _report_results(out, "growth", quiet) as (watch, keep):
        run_growth(
            _whole_numbers("--sizes", sizes),
            tasks=split_names(tasks) or tuple(TASKS),
            threads=threads or _cores(),
            n_epochs=epochs,
            exact_up_to=exact_up_to,
            watch=watch,
            keep=keep,
        )


@app.command()
def scale(
    size: Annotated[str, typer.Option(help="arxiv or products.")] = "arxiv",
    nodes: Annotated[int | None, typer.Option(help="Fewer nodes, at the same mean degree.")] = None,
    replaced: Annotated[float, typer.Option(help="Share of edges replaced by random ones.")] = 0.3,
    methods: Annotated[
        str | None, typer.Option(help="glnn-default, glnn-gcn, own-gcn, linear; else all.")
    ] = None,
    epochs: Annotated[
        int | None, typer.Option(min=1, help="Epochs of each classifier step; else their own.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of the graph and of the fits.")] = 0,
    threads: _Threads = None,
    out: _Out = _DEFAULT_OUT,
    quiet: _Quiet = False,
) -> None:
    """Fit a generated graph of a published size, and compare with a plain GCN."""
    from glnn_lab.benches.growth import METHODS, run_scale

    with _report_results(out, "scale", quiet) as (watch, keep):
        run_scale(
            size if size.endswith("-size") else f"{size}-size",
            n_nodes=nodes,
            replaced=replaced,
            methods=split_names(methods) or tuple(METHODS),
            n_epochs=epochs,
            threads=threads or _cores(),
            seed=seed,
            watch=watch,
            keep=keep,
        )


@app.command()
def processes(
    data: Annotated[
        str,
        typer.Option(
            help="Names of data sets and numbers of generated nodes, separated by commas."
        ),
    ] = "cora,20000,200000",
    processes: Annotated[
        str, typer.Option(help="Numbers of processes separated by commas.")
    ] = "1,2,4",
    epochs: Annotated[
        int | None, typer.Option(min=1, help="Epochs of each classifier step; else the preset's.")
    ] = None,
    out: _Out = _DEFAULT_OUT,
    quiet: _Quiet = False,
) -> None:
    """Measure fits over several processes, each with one thread."""
    from glnn_lab.benches.processes import run_processes

    parts = split_names(data) or ()
    with _report_results(out, "processes", quiet) as (watch, keep):
        run_processes(
            [int(part) if part.isdecimal() else part for part in parts],
            processes=_whole_numbers("--processes", processes),
            n_epochs=epochs,
            watch=watch,
            keep=keep,
        )


@app.command()
def floor(
    dataset: Annotated[str, typer.Option(help="A data set with a graph.")] = "cora",
    threads: _Threads = None,
    out: _Out = _DEFAULT_OUT,
    quiet: _Quiet = False,
) -> None:
    """Count the bytes and operations of the sparse products of an epoch, and time an epoch."""
    from glnn_lab.benches.floor import run_floor

    with _report_results(out, "floor", quiet) as (watch, keep):
        keep(run_floor(dataset, threads=threads or _cores(), watch=watch))


@app.command()
def revisions(
    before: Annotated[Path, typer.Argument(help="A checkout of another commit.")],
    datasets: Annotated[
        str, typer.Option(help="Names separated by commas.")
    ] = "cora,citeseer,pubmed,terrorattack,terroristsrel",
    presets: Annotated[str, typer.Option(help="Names separated by commas.")] = "default,paper",
    seeds: Annotated[int, typer.Option(min=1, help="Runs of each.")] = 10,
    first_seed: Annotated[int, typer.Option(min=0, help="Of the runs.")] = 200,
    threads: _Threads = None,
    out: _Out = _DEFAULT_OUT,
    quiet: _Quiet = False,
) -> None:
    """Compare time and accuracy of another commit with this one, in turn."""
    from glnn_lab.benches.revisions import run_revisions

    with _report_results(out, "revisions", quiet) as (watch, keep):
        run_revisions(
            before,
            datasets=split_names(datasets) or (),
            presets=split_names(presets) or (),
            seeds=range(first_seed, first_seed + seeds),
            threads=threads or _cores(),
            watch=watch,
            keep=keep,
        )


@contextmanager
def _report_results(
    out: Path, name: str, quiet: bool
) -> "Iterator[tuple[Callable[[str], None], Callable[[dict[str, Any]], None]]]":
    """Show progress, write the results after each part, and print the page at the end."""
    from glnn_lab.pages.bench_pages import write_bench

    command, pages = f"glnn {shlex.join(sys.argv[1:])}", list[Path]()
    console = Console(stderr=True, quiet=quiet)
    with console.status("") as status:

        def watch(text: str) -> None:
            status.update(text)
            if not console.is_terminal:
                console.print(text, markup=False, highlight=False)

        yield watch, lambda result: pages.append(write_bench(result, out, name, command))
    if pages and not quiet:
        typer.echo(pages[-1].read_text(encoding="utf-8"))
        typer.echo(f"page: {pages[-1]}")


def _cores() -> int:
    import os

    return os.cpu_count() or 1


def _whole_numbers(option: str, text: str) -> list[int]:
    from glnn.exceptions import InputError

    try:
        return [int(word) for word in split_names(text) or ()]
    except ValueError:
        raise InputError(
            f"{option} must be whole numbers separated by commas, got {text!r}."
        ) from None
