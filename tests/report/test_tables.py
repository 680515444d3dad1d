import io

from rich.console import Console

from glnn.report.tables import fact_table, markdown_summary, score_rows, score_table


def printed(table):
    console = Console(file=io.StringIO(), width=120)
    console.print(table)
    return console.file.getvalue()


def test_every_method_has_its_row_and_a_missing_one_its_reason(results):
    assert score_rows(results.scores) == [
        ("GLNN", "95.0 %", "1.5"),
        ("other <u>", "not installed", "0.0"),
    ]
    text = printed(score_table(results))
    assert "95.0 %" in text
    assert "not installed" in text


def test_the_best_is_bold(results):
    styles = [row.style for row in score_table(results).rows]
    assert styles == ["bold", None]


def test_the_facts_are_printed(results):
    text = printed(fact_table(results))
    assert "mean degree" in text
    assert "optimal" in text


def test_markdown_holds_the_same_numbers(results):
    text = markdown_summary(results)
    assert "| GLNN | 95.0 % | 1.5 |" in text
    assert "| edges | 91 |" in text
