from glnn_lab.pages.markdown import markdown_table


def test_a_cell_is_one_line_and_its_bars_are_no_borders():
    table = markdown_table(["method", "note"], [["a|b", "two\nlines"], ["c", ""]])
    assert table.splitlines() == [
        "| method | note |",
        "|---|---|",
        "| a\\|b | two lines |",
        "| c |  |",
    ]
