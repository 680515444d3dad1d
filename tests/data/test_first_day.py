"""Tables as people have them: each is read correctly or refused with a clear error line."""

import bz2
import gzip
import zipfile

import numpy as np
import pandas as pd
import pytest

from glnn.data import read_data, read_tables, table_text
from glnn.data.arguments import align_graph
from glnn.exceptions import DataFormatError, GraphWarning, InputError

FIRST = ("ann", "bob", "cy", "dan")


def put(tmp_path, content, name="people.csv"):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


PLAIN = "id,age,label\nann,30.5,u\nbob,40,v\ncy,50,\ndan,60,u\n"


@pytest.mark.parametrize(
    "content",
    [
        PLAIN,
        b"\xef\xbb\xbf" + PLAIN.encode(),
        PLAIN.replace(",", ";"),
        PLAIN.replace(",", "|"),
        PLAIN.replace(",", "\t"),
        PLAIN.replace(",", ";").replace(".", ","),
        PLAIN.replace("\n", "\r\n"),
        PLAIN.replace("u", '"u"'),
        PLAIN.replace("u\n", " u \n"),
        PLAIN.encode("utf-16"),
    ],
)
def test_the_same_table_however_it_was_saved(tmp_path, content):
    data, report = read_tables(put(tmp_path, content))
    assert data.ids.tolist() == list(FIRST)
    assert data.features.toarray().ravel().tolist() == [30.5, 40, 50, 60]
    assert data.class_names == ("u", "v")
    assert data.labels.tolist() == [0, 1, -1, 0]
    assert report.lines() == ()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", ("column names", "nothing")),
        ("id,x\na,1\0\n", ("got other bytes at byte 8",)),
        ('[{"id": 1, "x": 2}]\n', ("JSON", "suffix")),
        ('{"id": 1, "x": 2}\n', ("JSON", "suffix")),
        (b"\x80\x04\x95", ("pickle",)),
        ("\n", ("column names",)),
        ("id,age,label\n", ("at least one row",)),
        ("id,age\nann,1,2\n", ("as many cells", "3 instead of 2 in line 2")),
        ("id  x\n" + "".join(f"c{k:<5}{k}\n" for k in range(30)), ("'id  x'", "--set delimiter")),
        (b"PK\3\4 and more", ("workbook", "suffix")),
        (b"\xd0\xcf\x11\xe0 and more", ("old Excel",)),
        ("<!DOCTYPE html><html>Not found</html>\n", ("HTML",)),
        (",,\n1,2,3\n", ("column 2",)),
        ("a,b\n1,2\n1,2,3\n", ("3 instead of 2 in line 3", "Quote cells")),
        ('a,b\n"1,2\n', ("CSV",)),
        (b"id,age\n\xe9\0,1\n", ("--set encoding",)),
        ("id,note\n" + "".join(f"{k},text {k}\n" for k in range(30)), ("informative",)),
    ],
)
def test_a_table_that_cannot_be_is_answered_in_one_right_line(tmp_path, content, words):
    with pytest.raises(InputError) as caught:
        read_tables(put(tmp_path, content))
    message = str(caught.value)
    assert "\n" not in message
    assert "people.csv" in message
    assert all(word in message for word in words), message


STRICT = {"encode": "error", "missing": "error"}


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("id,age\nann,1\nbob,\n", ("'age'", "row 2", "--missing median")),
        ("id,born\nann,2001-05-09\n", ("'born'", "dates", "(the default)")),
        ("id,city\nann,Rome\n", ("'city'", "'Rome'", "(the default)", "--drop 'city'")),
        ("id,age\nann,inf\n", ("'inf'", "row 1")),
        ("id,age\nann,1e39\n", ("row 1", "--drop 'age'")),
    ],
)
def test_a_strict_reading_refuses_what_is_no_finite_number(tmp_path, content, words):
    with pytest.raises(InputError) as caught:
        read_tables(put(tmp_path, content), **STRICT)
    assert all(word in str(caught.value) for word in words)


# Messy tables: each column with the cells of a row each, what becomes of it, and a word of the
# only line that is said about it (or none)

TEN = list(range(10))


def cells(*values):
    """Return ten cells, the last one repeated."""
    return [*values, *([values[-1]] * (10 - len(values)))]


@pytest.mark.parametrize(
    ("name", "column", "expected", "line"),
    [
        ("age", cells("?", "30", "40.5"), {"age": cells(40.5, 30, 40.5)}, "'?'"),
        ("age", cells("30", "unknown", "?", "", "7"), {"age": cells(30, 7, 7, 7, 7)}, "2 cells"),
        ("age", cells("1", "", "3"), {"age": cells(1, 3, 3)}, None),
        ("end", cells("2024-03-01", "9999-12-31", "2024-03-03"), {"end": cells(0, 2, 2)}, None),
        (
            "at",
            cells("2024-03-01 10:00:00 UTC", "2024-03-02 10:00:00 UTC"),
            {"at": cells(0, 1)},
            None,
        ),
        (
            "pay",
            cells("$12.50", "$1,200.00", "$3"),
            {"pay": cells(12.5, 1200, 3)},
            "'$12.50' read as 12.5",
        ),
        (
            "pay",
            cells("12,50 €", "1.200,00 €"),
            {"pay": cells(12.5, 1200)},
            "'12,50 €' read as 12.5",
        ),
        ("share", cells("12%", "5 %", "7.5%"), {"share": cells(12, 5, 7.5)}, "'12%' read as 12"),
        ("size", cells("12 kg", "5kg", "7"), {"size": cells(12, 5, 7)}, "'12 kg' read as 12"),
        ("size", cells("1kg", "5lb"), {"size=1kg": cells(1, 0), "size=5lb": cells(0, 1)}, None),
        ("heat", cells("1", "inf", "3", "5"), {"heat": cells(1, 5, 3, 5)}, "infinite"),
        ("heat", cells("1", "1e39", "3", "5"), {"heat": cells(1, 5, 3, 5)}, "too large"),
        ("row_number", [k + 1 for k in TEN], {}, "numbers the rows"),
        ("anything", TEN, {}, "numbers the rows"),
        ("year", [1990 + k for k in TEN], {"year": [1990 + k for k in TEN]}, None),
        ("zip", cells(8001, 3000), {"zip=3000": cells(0, 1), "zip=8001": cells(1, 0)}, "codes"),
        ("code", cells("007", "12"), {"code=007": cells(1, 0), "code=12": cells(0, 1)}, "codes"),
        ("number", [2**70 + k for k in TEN], {}, "long number"),
        ("weight", cells(2**70, 1, 2), {"weight": cells(2.0**70, 1, 2)}, None),
        ("vip", cells("true", "", "false"), {"vip": cells(1, 0, 0)}, None),
        ("born", cells("2020-02-01", "2020-03-01"), {"born": cells(0, 29)}, None),
        ("born", cells("13 Jan 2020", "14 Jan 2020"), {"born": cells(0, 1)}, None),
        ("born", cells("13.01.2020 06:00", "14.01.2020 18:00"), {"born": cells(0, 1.5)}, None),
        ("born", cells(20200113, 20200201), {"born": cells(0, 19)}, "YYYYMMDD"),
        ("born", cells("2020-01-13", "14/01/2020"), {}, "several or unknown formats"),
        ("born", cells("13.01.45", "14.01.45"), {}, "several or unknown formats"),
        ("pay", cells("€ 1 200.50", "€ 80"), {"pay": cells(1200.5, 80)}, "read as 1200.5"),
        ("pay", cells("1\u202f200,50 €", "7,5 €"), {"pay": cells(1200.5, 7.5)}, "read as 1200.5"),
        ("pay", cells("1'200.50", "80"), {"pay": cells(1200.5, 80)}, "read as 1200.5"),
        ("pay", cells("(1,250.00)", "80.00"), {"pay": cells(-1250, 80)}, "read as -1250"),
        ("pay", cells("\u22121.5", "80"), {"pay": cells(-1.5, 80)}, "read as -1.5"),
        ("pay", cells("CHF 12", "CHF 1,300"), {"pay": cells(12, 1300)}, "read as 12"),
        ("pay", cells("2.5k", "900", "1M"), {"pay": cells(2500, 900, 1e6)}, "read as 2500"),
        ("crp", cells("<0.5", "1.5", "3"), {"crp": cells(0.5, 1.5, 3)}, "read as 0.5"),
        ("share", cells("", "5 %", "", "7 %"), {"share": cells(7, 5, 7, 7)}, "'5 %' read as 5"),
        ("heat", cells(-999, -999, 3, 5), {"heat": cells(5, 5, 3, 5)}, "2 cells of -999"),
        ("heat", cells(-999, -5, -999, 5), {"heat": cells(-999, -5, -999, 5)}, None),
        ("heat", cells("#DIV/0!", "1", "3"), {"heat": cells(3, 1, 3)}, None),
        (
            "size",
            cells("S", "M", "L", 4, 4),
            {"size=4": cells(0, 0, 0, 1), "size=L": cells(0, 0, 1, 0), "size=M": cells(0, 1, 0)}
            | {"size=S": cells(1, 0)},
            "most cells are numbers",
        ),
        (
            "vip",
            cells("Yes", "nein", "yes", "N", "ja", "no", "no", "yes"),
            {"vip=no": cells(0, 1, 0, 1, 0, 1, 1, 0), "vip=yes": cells(1, 0, 1, 0, 1, 0, 0, 1)},
            "'Yes' as 'yes'",
        ),
        (
            "city",
            cells("rome", "Rome", "Bern ", "Bern"),
            {"city=Bern": cells(0, 0, 1), "city=Rome": cells(1, 1, 0)},
            "'rome' as 'Rome'",
        ),
        ("customer_no", [5000 + 7 * k % 31 for k in TEN], {}, "numbers the rows"),
        ("born", cells("02/01/2020", "03/01/2020"), {"born": cells(0, 29)}, "month comes first"),
        ("born", cells("2020-02-01", "n.a.", "2020-03-01"), {"born": cells(0, 29, 29)}, None),
        ("born", cells("13/01/2020", "14/01/2020"), {"born": cells(0, 1)}, None),
        ("city", cells("Z", "", "B"), {"city=B": cells(0, 0, 1), "city=Z": cells(1, 0)}, None),
        ("took", cells("1:23:45", "59:10"), {"took": cells(5025, 3550)}, "read as 5025"),
        ("took", cells("1 day 00:00:01", "00:01:00"), {"took": cells(86401, 60)}, "86401"),
        ("at", cells("9:05", "", "23:59"), {"at": cells(545, 1439, 1439)}, "'9:05' read as 545"),
        ("stay", cells("3 days", "1 day"), {"stay": cells(3, 1)}, "'3 days' read as 3"),
        ("left", cells("12.5-", "3"), {"left": cells(-12.5, 3)}, "'12.5-' read as -12.5"),
        ("pay", cells("₹ 1,00,000", "₹ 99,999"), {"pay": cells(1e5, 99999)}, "read as 100000"),
        ("salt", cells("3,5 ‰", "4 ‰"), {"salt": cells(3.5, 4)}, "'3,5 ‰' read as 3.5"),
        ("n", cells("١٢", "٣"), {"n": cells(12, 3)}, "read as 12"),
        ("n", cells("\\N", "#NV", "30", "7"), {"n": cells(7, 7, 30, 7)}, None),
        ("n", cells("—", "nil", "[NULL]", "30", "7"), {"n": cells(7, 7, 7, 30, 7)}, "3 cells"),
        ("city", cells("\\N", "Bern"), {"city=Bern": cells(0, 1)}, None),
        ("city", cells("Zu\u0308rich", "Zürich\u200e", "Zürich"), {}, "one value only"),
        ("month", cells("2024-01", "2024-03"), {"month": cells(0, 60)}, None),
        ("day", cells("2024.03.01", "2024.03.05"), {"day": cells(0, 4)}, None),
        ("ts", cells(1700000007, 1700000000), {"ts": cells(7, 0)}, None),
        (
            "telephone",
            cells(41, 44),
            {"telephone=41": cells(1, 0), "telephone=44": cells(0, 1)},
            "codes",
        ),
        ("order_id", [f"o{k}" for k in TEN], {}, "another id"),
        ("empty", cells(""), {}, "no value"),
        ("same", cells("a"), {}, "one value only"),
    ],
)
@pytest.mark.parametrize("suffix", [".csv", ".jsonl"])
def test_a_messy_column_is_read_right_or_its_doubt_is_told(
    tmp_path, name, column, expected, line, suffix
):
    frame = pd.DataFrame({"id": [f"n{k}" for k in TEN], name: column, "x": [0.5 * k for k in TEN]})
    path = tmp_path / f"t{suffix}"
    if suffix == ".csv":
        frame.to_csv(path, index=False)
    else:
        path.write_text("\n".join(frame.apply(lambda row: row.to_json(), axis=1)))
    data, report = read_tables(path, drop_constant=True)
    found = pd.DataFrame(data.features.toarray(), columns=data.feature_names)
    assert {n: found[n].tolist() for n in found if n != "x"} == {
        n: np.float32(values).tolist() for n, values in expected.items()
    }
    lines = report.lines()
    assert len(lines) == (line is not None), lines
    assert all(line in said and ("--" in said or not expected) for said in lines)
    assert dict(report.column_rows()).keys() == {"id", name, "x"}
    new = report.encoder.transform(frame.iloc[::-1], "the same rows")
    assert (new != data.features[::-1]).nnz == 0


@pytest.mark.parametrize(
    ("labels", "options", "classes", "n_unlabelled"),
    [
        (["a", "b", "NA", "unknown", "?", ""], {}, ("a", "b"), 4),
        (["a", "b", "unknown"], {"exact_labels": True}, ("a", "b", "unknown"), 0),
        (["a", "b", "unknown"], {"na": ["b"]}, ("a", "unknown"), 1),
        (["yes", "unknown"], {}, ("unknown", "yes"), 0),
        (["Loyal", "loyal", "loyal", "lost"], {}, ("lost", "loyal"), 0),
        (["A", "a", "b"], {"exact_labels": True}, ("A", "a", "b"), 0),
        (["-1", "0", "1"], {}, ("0", "1"), 1),
        (["a b", "a  b", "a\u00a0b", "a b", "c"], {}, ("a b", "c"), 0),
    ],
)
def test_labels_that_mean_unknown_or_differ_in_case(
    tmp_path, labels, options, classes, n_unlabelled
):
    rows = "".join(f"{k * 1.5},{label}\n" for k, label in enumerate(labels))
    data, report = read_tables(put(tmp_path, "x,label\n" + rows), **options)
    assert data.class_names == classes
    assert (data.labels == -1).sum() == n_unlabelled
    gone = set(labels) - {*classes, "", *options.get("na", ())}
    assert len(report.lines()) == len(gone)
    assert all(any(repr(label) in line for line in report.lines()) for label in gone)


@pytest.mark.parametrize("kind", ["quantity", "own text"])
def test_a_label_that_is_no_class_is_refused_and_another_column_is_offered(tmp_path, kind):
    label = [f"{1.1 * k:.2f}" if kind == "quantity" else f"text {k}" for k in range(60)]
    frame = pd.DataFrame({"x": [0.5, 1.5, 2.5] * 20, "status": ["a", "b", ""] * 20, "y": label})
    frame.to_csv(tmp_path / "t.csv", index=False)
    with pytest.raises(InputError, match=r"classes, got 60 different .*'status'"):
        read_tables(tmp_path / "t.csv", label_column="y", needs_label=True)


def test_equal_ids_number_the_rows_unless_other_files_need_them(tmp_path):
    path = put(tmp_path, "id,age,label\nann,1,u\nann,2,v\n")
    data, report = read_tables(path)
    assert (data.ids, data.feature_names) == (None, ("age",))
    assert "--group id" in report.lines()[0]
    assert read_tables(path, group_column="id")[1].groups.tolist() == ["ann", "ann"]
    edges = put(tmp_path, "source,target\nann,ann\n", "edges.csv")
    with pytest.raises(InputError, match="'ann' twice"):
        read_tables(path, None, edges)


@pytest.mark.parametrize("ids", [" ann,bob ,zo\u00eb", "1.0,2.0,3.0"])
def test_ids_are_the_same_however_they_are_written(tmp_path, ids):
    path = put(
        tmp_path, "id,x\n" + "".join(f"{name},{k}\n" for k, name in enumerate(ids.split(",")))
    )
    a, b, c = ids.replace(" ", "").replace(".0", "").replace("\u00eb", "e\u0308").split(",")
    labels = put(tmp_path, f"{a},u\n{c},v\n", "labels.csv")
    data, _ = read_tables(path, labels, put(tmp_path, f"{a},{b}\n{b},{c}\n", "edges.csv"))
    assert (data.n_edges, data.graph[0, 1], data.labels.tolist()) == (2, 1, [0, -1, 1])


def test_a_line_that_is_cut_is_mentioned(tmp_path):
    lines = read_tables(put(tmp_path, PLAIN + "eve,50\nfay,60,v\n"))[1].lines()
    assert len(lines) == 1 and "'eve,50'" in lines[0] and "line breaks" in lines[0]


def test_words_that_occur_equally_often_are_one_hot_if_asked_for(tmp_path):
    path = put(tmp_path, "id,c,x\n" + "".join(f"r{k},c{k % 40},{k % 7}\n" for k in range(80)))
    data, report = read_tables(path, drop_constant=True)
    assert data.feature_names == ("x",) and "--as c=category" in report.lines()[0]
    assert len(read_tables(path, kinds={"c": "category"})[0].feature_names) == 41


def test_columns_without_a_name_of_their_own_get_one(tmp_path):
    data, report = read_tables(put(tmp_path, "a,a,,b\n1,2,3,4\n2,2,2,2.5\n"))
    assert data.feature_names == ("a", "a.2", "column 3", "b")
    assert "'a.2', 'column 3'" in report.lines()[0]
    data, _ = read_tables(put(tmp_path, "a,a,a,a.2\n1,2,3,4\n2,2,2,2.5\n"))
    assert data.feature_names == ("a", "a.2", "a.3", "a.2.2")
    wide = ",".join(["a"] * 30_000)  # takes no time that grows with the square of the width
    assert len(table_text.parse_column_names(tmp_path, wide.split(","))) == 30_000


def test_blanks_around_cells_that_are_no_text(tmp_path):
    path = put(tmp_path, f"id, vip, n\na, True, {2**70}\nb, , 1\nc, False, 2\n")
    data, _ = read_tables(path)
    assert data.feature_names == ("vip", "n")
    assert data.features.toarray()[:, 1].tolist() == [2.0**70, 1, 2]


def test_one_column_with_another_decimal_mark_leaves_the_others_as_they_are(tmp_path):
    rows = "".join(f'{k}.5,{k}.25,"{k},5"\n' for k in range(1, 4))
    data, report = read_tables(put(tmp_path, "x,y,z\n" + rows))
    assert data.features.toarray()[0].tolist() == [1.5, 1.25, 1.5]
    assert len(report.lines()) == 1 and report.lines()[0].startswith("z:")


def test_a_first_line_of_data_is_noticed(tmp_path):
    lines = read_tables(put(tmp_path, "0.5,1.25,a\n1.5,2.5,b\n2.5,0.5,a\n"))[1].lines()
    assert "'0.5', '1.25', 'a'" in lines[0]
    lines = read_tables(put(tmp_path, "7,red,yes\n9,blue,no\n7,red,no\n8,blue,yes\n"))[1].lines()
    assert "'7', 'red', 'yes'" in lines[0]


# Tables as programs and people export them: all of them hold the same four rows

FOUR = PLAIN.partition("\n")[2]


@pytest.mark.parametrize(
    ("content", "line"),
    [
        ("id,age,label,\n" + FOUR.replace("\n", ",\n"), None),
        ("id,age,label\n" + FOUR.replace("\n", ",\n"), None),
        (PLAIN + PLAIN, "repeat the column names: 1"),
        (" id , age , label \n" + FOUR, None),
        ("id,age,Label\n" + FOUR, None),
        ("Members of 2024\n\n" + PLAIN, "2 lines above"),
        ("Members of 2024,,\n,,\n" + PLAIN, "2 lines above"),
        ("Members of 2024\r\r" + PLAIN.replace("\n", "\r"), "2 lines above"),
        ("# exported, by hand\n# on Monday\n" + PLAIN, "2 lines above"),
        ("sep=;\n" + PLAIN.replace(",", ";"), "a line above"),
        (PLAIN.encode("utf-16-le"), None),
        (PLAIN.replace(",", "\t").encode("utf-16"), None),
        (PLAIN.replace("\n", "\r"), None),
        (b"\xef\xbb\xbf" + PLAIN.replace("\n", "\r\n").encode(), None),
        ("id,age,label,all_gaps\n" + FOUR.replace("\n", ",NA\n"), "no value"),
        ("age,label\n" + FOUR, "first column has no name"),
        (
            "age label\n" + FOUR.replace(",\n", ",NA\n").replace(",", " "),
            "first column has no name",
        ),
        ("Person,,\n" + PLAIN, "a line above"),
        ('id,age,label\n="ann",="30.5",u\n' + FOUR.partition("\n")[2], None),
    ],
)
def test_a_table_as_programs_export_it(tmp_path, content, line):
    if content == PLAIN + PLAIN:  # other ids in the second half
        content = PLAIN + PLAIN.replace("ann", "eve").replace("bob", "fay").replace("cy", "guy")
        content = content.replace("dan", "hal", 1)
    data, report = read_tables(put(tmp_path, content), needs_label=True)
    assert data.features.toarray().ravel().tolist()[:4] == [30.5, 40, 50, 60]
    assert set(data.features.toarray().ravel()) == {30.5, 40, 50, 60}
    assert (data.class_names, data.labels[:4].tolist()) == (("u", "v"), [0, 1, -1, 0])
    assert data.ids[0] == "ann" and len(data.ids) % 4 == 0
    lines = [said for said in report.lines() if not said.startswith(("ids:", "labels: 'NA'"))]
    assert len(lines) == (line is not None) and all(line in said for said in lines)


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (PLAIN + "Total,180.5,\n", "totals ('Total')"),
        (PLAIN.replace(",", ";").replace(".", ",") + "Summe;180,5;\n", "totals ('Summe')"),
        (PLAIN + "\nSource: the ministry\n", "a remark: 'Source: the ministry'"),
        (PLAIN + "\x1a", "a remark"),
        (PLAIN + ",,\n" * 3, "empty rows: 3"),
        (PLAIN.replace(",", " | "), None),
        (PLAIN.replace(",", ", ").replace("ann", '"ann"'), None),
        ("| id | age | label |\n|---|---|---|\n" + FOUR.replace(",", " | "), "'---'"),
    ],
)
def test_rows_that_are_no_data_are_left_out(tmp_path, content, line):
    if content.startswith("|"):
        content = content.replace("\nann", "\n| ann").replace("u\n", "u |\n")
        content = content.replace("\nbob", "\n| bob").replace("v\n", "v |\n")
        content = content.replace("\ncy", "\n| cy").replace("50 | \n", "50 |  |\n")
        content = content.replace("\ndan", "\n| dan")
    data, report = read_tables(put(tmp_path, content), needs_label=True)
    assert data.features.toarray().ravel().tolist() == [30.5, 40, 50, 60]
    assert (data.ids.tolist(), data.class_names) == (list(FIRST), ("u", "v"))
    assert data.labels.tolist() == [0, 1, -1, 0]
    assert len(report.lines()) == (line is not None)
    assert all(line in said for said in report.lines())


@pytest.mark.parametrize("suffix", [".csv", ".xlsx"])
def test_a_second_row_of_names_or_units_is_not_data(tmp_path, suffix):
    rows = [["id", "size", None, "pay", "label"], [None, "height", "width", "EUR", None]]
    rows += [[f"c{k}", 1.5 * k, 2.5 * k, 100 * k, "uv"[k % 2]] for k in range(8)]
    rows[-1][1] = "?"
    frame, path = pd.DataFrame(rows), tmp_path / f"t{suffix}"
    write = frame.to_csv if suffix == ".csv" else frame.to_excel
    write(path, index=False, header=False)
    data, report = read_tables(path)
    assert data.feature_names == ("size height", "size width", "pay EUR")
    assert data.features.toarray()[:2].tolist() == [[0, 0, 0], [1.5, 2.5, 100]]
    assert (data.ids[0], data.class_names) == ("c0", ("u", "v"))
    assert len(report.lines()) == 2 and "'height', 'width', 'EUR'" in report.lines()[0]


@pytest.mark.parametrize("second", ["cm", "---"])
def test_equal_names_below_merged_cells_stay_apart(tmp_path, second):
    rows = "".join(f"c{k},{k}.5,{k}.25,{'uv'[k % 2]}\n" for k in range(6))
    head = f"id,size,,label\n,{second},{second},\n"
    data, report = read_tables(put(tmp_path, head + rows))
    assert data.n_features == 2 and data.features.toarray()[1].tolist() == [1.5, 1.25]
    expected = ("size cm", "size cm.2") if second == "cm" else ("size", "column 3")
    assert data.feature_names == expected
    assert f"{second!r}" in report.lines()[0]


def test_a_row_of_units_does_not_change_the_names(tmp_path):
    units = PLAIN.replace("age,label", "age,size,label").replace("0,", "0,1.5,")
    units = units.replace("30.5,", "30.5,2.5,").replace("\nann", "\n,years,cm,\nann")
    data, report = read_tables(put(tmp_path, units))
    assert data.feature_names == ("age", "size") and data.ids.tolist() == list(FIRST)
    assert report.lines() == ("table: the row below the column names is not data: 'years', 'cm'",)


@pytest.mark.parametrize("copy", [["u", "v", ""], ["1", "2", ""]])
def test_a_feature_that_repeats_the_label_is_left_out(tmp_path, copy):
    rows = "".join(f"{k}.5,{'uv '[k % 3]},{copy[k % 3]}\n" for k in range(9))
    path = put(tmp_path, "x,label,also\n" + rows)
    data, report = read_tables(path)
    assert data.feature_names == ("x",)
    assert "'also'" in report.lines()[0] and "--as also=category" in report.lines()[0]
    assert len(read_tables(path, kinds={"also": "category"})[0].feature_names) == 3


def test_an_index_of_pandas_is_the_id(tmp_path):
    pd.DataFrame({"x": [1.5, 2.5]}, index=["ann", "bob"]).to_parquet(tmp_path / "t.parquet")
    assert read_tables(tmp_path / "t.parquet")[0].ids.tolist() == ["ann", "bob"]


def test_a_title_above_the_names_of_a_sheet_is_left_out(tmp_path):
    cells = [["Members", None, None], [None] * 3, ["id", "age", "label"]]
    cells += [line.split(",") for line in FOUR.split()]
    pd.DataFrame(cells).to_excel(tmp_path / "t.xlsx", index=False, header=False)
    data, report = read_tables(tmp_path / "t.xlsx")
    assert data.features.toarray().ravel().tolist() == [30.5, 40, 50, 60]
    assert (data.ids.tolist(), data.class_names) == (list(FIRST), ("u", "v"))
    assert report.lines() == ("table: left out 2 rows above the column names",)


def test_points_in_thousands_of_a_table_with_semicolons(tmp_path):
    path = put(tmp_path, "id;pay\nann;61.333\nbob;12.500\n")
    data, report = read_tables(path)
    assert data.features.toarray().ravel().tolist() == [61333, 12500]
    assert "--set decimal=." in report.lines()[0]
    assert read_tables(path, decimal=".")[0].features.toarray()[1, 0] == 12.5
    clear = put(tmp_path, "id;pay\nann;1.061.333\nbob;500\n")
    assert read_tables(clear)[0].features.toarray().ravel().tolist() == [1061333, 500]
    path = put(tmp_path, "id;pay\nann;61.333\nbob;0.500\n")
    assert read_tables(path)[0].features.toarray()[1, 0] == 0.5


@pytest.mark.parametrize("form", ["{:05d}", "c{}", "{}-x"])
def test_a_first_column_that_names_the_rows_is_the_id(tmp_path, form):
    rows = "".join(f"{form.format(k)},{k % 4}.5,{'ab'[k % 2]}\n" for k in range(12))
    path = put(tmp_path, "customer,visits,label\n" + rows)
    data, report = read_tables(path)
    assert data.ids.tolist() == [form.format(k) for k in range(12)]
    assert "'customer'" in report.lines()[0] and "--id" in report.lines()[0]
    assert read_tables(path, drop=["customer"])[0].feature_names == ("visits",)
    assert read_tables(path, kinds={"customer": "category"})[0].ids is None


# Files as they come


def write_packed(tmp_path, suffix, text):
    path = tmp_path / f"people{suffix}"
    if suffix.endswith(".zip"):
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("people.csv", text)
            archive.writestr("__MACOSX/._people.csv", "")
    else:
        pack = {".gz": gzip.compress, ".bz2": bz2.compress}[path.suffix]
        path.write_bytes(pack(text.encode()))
    return path


@pytest.mark.parametrize("suffix", [".csv.gz", ".csv.bz2", ".csv.zip", ".zip", ".tsv.gz"])
def test_a_compressed_table_is_the_table(tmp_path, suffix):
    text = PLAIN.replace(",", "\t") if "tsv" in suffix else PLAIN
    path = write_packed(tmp_path, suffix, text)
    assert read_data(path).features.toarray().ravel().tolist() == [30.5, 40, 50, 60]
    assert read_data(path).ids.tolist() == list(FIRST)
    packed = path.read_bytes()
    path.write_bytes(packed[: len(packed) // 2])
    with pytest.raises(InputError, match=path.name):
        read_data(path)


def test_a_zip_file_with_several_tables_is_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "t.zip", "w") as archive:
        archive.writestr("a.csv", PLAIN)
        archive.writestr("b.csv", PLAIN)
    with pytest.raises(InputError, match=r"one table, got 2 files \('a.csv', 'b.csv'\)"):
        read_tables(tmp_path / "t.zip")


@pytest.mark.parametrize("suffix", [".feather", ".jsonl", ".ndjson", ".json"])
def test_other_formats_of_tables(tmp_path, suffix):
    frame = pd.DataFrame({"id": ["a", "b"], "x": [1.5, None], "on": ["2020-01-01", "2020-01-03"]})
    path = tmp_path / f"t{suffix}"
    if suffix == ".feather":
        frame.to_feather(path)
    else:
        frame.to_json(path, orient="records", lines=suffix != ".json")
    data = read_data(path)
    assert data.ids.tolist() == ["a", "b"]
    assert data.features.toarray().tolist() == [[1.5, 0], [1.5, 2]]
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(InputError, match=path.name):
        read_data(path)


def test_another_sheet_is_mentioned_and_can_be_named(tmp_path):
    with pd.ExcelWriter(tmp_path / "t.xlsx") as book:
        pd.DataFrame({"id": ["a", "b"], "x": [1, 2]}).to_excel(book, sheet_name="old", index=False)
        pd.DataFrame({"id": ["a", "b"], "y": [3, 5]}).to_excel(book, sheet_name="new", index=False)
    data, report = read_tables(tmp_path / "t.xlsx")
    assert data.feature_names == ("x",)
    assert "'old'" in report.lines()[0] and "('new')" in report.lines()[0]
    data, report = read_tables(tmp_path / "t.xlsx", sheet="new")
    assert (data.feature_names, report.lines()) == (("y",), ())
    with pd.ExcelWriter(tmp_path / "n.xlsx") as book:
        pd.DataFrame({"see the other sheet": []}).to_excel(book, sheet_name="notes", index=False)
        pd.DataFrame({"id": ["a"], "x": [1]}).to_excel(book, sheet_name="data", index=False)
    with pytest.raises(DataFormatError, match=r"at least one row.*--sheet .*'data'"):
        read_tables(tmp_path / "n.xlsx")
    with pytest.raises(InputError, match="Did you mean 'new'"):
        read_tables(tmp_path / "t.xlsx", sheet="neww")


def test_a_sheet_that_is_hidden_or_begins_elsewhere(tmp_path):
    frame = pd.DataFrame({"id": ["a", "b"], "x": [1, 2]})
    with pd.ExcelWriter(tmp_path / "t.xlsx") as book:
        pd.DataFrame({"old": [1]}).to_excel(book, sheet_name="old", index=False)
        frame.to_excel(book, sheet_name="new", index=False, startrow=3, startcol=2)
        book.sheets["old"].sheet_state = "hidden"
    data, report = read_tables(tmp_path / "t.xlsx")
    assert (data.ids.tolist(), data.feature_names) == (["a", "b"], ("x",))
    assert "('old')" in report.lines()[0]


def test_a_value_that_means_missing_can_be_named(tmp_path):
    path = put(tmp_path, "id,x,city,label\na,1,Rome,u\nb,-999,none,v\nc,3,Rome,none\n")
    data, report = read_tables(path, na=["-999", "none"])
    assert data.feature_names == ("x", "city=Rome")
    assert data.features.toarray().tolist() == [[1, 1], [2, 0], [3, 1]]
    assert (data.labels.tolist(), report.lines()) == ([0, 1, -1], ())
    new = pd.DataFrame({"x": [-999], "city": ["none"]})
    assert report.encoder.transform(new, "new").toarray().tolist() == [[2, 0]]


@pytest.mark.parametrize("mark", [":", "^", "~", " "])
def test_a_rare_delimiter_is_found(tmp_path, mark):
    assert read_tables(put(tmp_path, PLAIN.replace(",", mark)))[0].ids.tolist() == list(FIRST)


def test_a_wrong_delimiter_is_noticed(tmp_path):
    with pytest.raises(InputError, match="Leave the option out"):
        read_tables(put(tmp_path, PLAIN), delimiter=";")
    assert read_tables(put(tmp_path, PLAIN, "t.tsv"))[0].feature_names == ("age",)


def test_windows_text_is_read_and_told(tmp_path):
    data, report = read_tables(put(tmp_path, "id,x\né,1\nü,2\n".encode("cp1252")))
    assert data.ids.tolist() == ["é", "ü"]
    assert "--set encoding" in report.lines()[0]


@pytest.mark.parametrize(
    ("head", "options", "weight", "n_lines"),
    [
        ("edge_id,from_id,to_id", {}, 1, 1),
        ("edge_id,from_id,to_id,strength", {}, 0.5, 2),
        ("edge_id,from_id,to_id,strength", {"weight_column": "none"}, 1, 1),
        ("relation,person_a,person_b", {}, 1, 2),
        ("nr,person_a,person_b,trust", {"weight_column": "trust"}, 0.5, 2),
        ("nr,x,y", {"source_column": "y", "target_column": "x"}, 1, 1),
    ],
)
def test_columns_of_edges_are_named_or_guessed_with_a_line(
    tmp_path, head, options, weight, n_lines
):
    tail = ",0.5" * (head.count(",") - 2)
    edges = put(tmp_path, f"{head}\n7,ann,bob{tail}\n8,cy,dan{tail}\n", "edges.csv")
    data, report = read_tables(put(tmp_path, PLAIN), None, edges, **options)
    assert data.n_edges == 2
    assert data.graph[0, 1] == data.graph[2, 3] == weight
    assert len(report.lines()) == n_lines
    frame, names = pd.read_csv(edges), list(FIRST)
    if not options:
        with pytest.warns(GraphWarning, match="graph"):
            same = align_graph(frame, names, 4)
        assert (same != data.graph).nnz == 0


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("e.csv", "source,target\n1.0,2.0\n3.0, 4\n"),
        ("e.txt", "source target\n1 2\n3 4\n"),
        ("e.txt", "# a graph\n1 2 {}\n3 4 {}\n"),
        ("e.txt", "source,target\n1,2\n3,4\n"),
    ],
)
def test_edges_as_programs_write_them(tmp_path, name, content):
    path = put(tmp_path, "id,x\n1,0.5\n2,1.5\n3,0.5\n4,2.5\n")
    data, report = read_tables(path, None, put(tmp_path, content, name))
    assert (data.n_edges, data.graph[0, 1], data.graph[2, 3]) == (2, 1, 1)
    assert report.lines() == ()


def test_a_matrix_in_place_of_a_list_of_edges_is_refused(tmp_path):
    path = put(tmp_path, "x\n0.5\n1.5\n0.5\n2.5\n")
    matrix = put(tmp_path, "0,1,0,0\n1,0,0,0\n0,0,0,1\n0,0,1,0\n", "edges.csv")
    with pytest.raises(DataFormatError, match="4 columns without names"):
        read_tables(path, None, matrix)


def test_a_labels_file_without_ids_is_refused(tmp_path):
    path, labels = put(tmp_path, "id,x\na,1\nb,2\n"), put(tmp_path, "label\nu\nv\n", "l.csv")
    with pytest.raises(DataFormatError, match="a column of ids and one of labels, got 'label'"):
        read_tables(path, labels)
    labels.write_text("id,label\n a ,u\nb,v\n")
    assert read_tables(path, labels)[0].class_names == ("u", "v")


@pytest.mark.parametrize("suffix", ["csv", "txt"])
def test_weights_that_are_none_can_be_left_out(tmp_path, suffix):
    path, mark = put(tmp_path, PLAIN), " " if suffix == "txt" else ","
    edges = put(tmp_path, "% by hand\n" * (mark == " "), f"e.{suffix}")
    edges.write_text(f"{edges.read_text()}ann,bob,strong\ncy,dan,weak\n".replace(",", mark))
    with pytest.raises(DataFormatError, match="--weight none"):
        read_tables(path, None, edges)
    assert read_tables(path, None, edges, weight_column="none")[0].n_edges == 2
    edges.write_text("ann,bob,0\ncy,dan,1\n".replace(",", mark))
    data, report = read_tables(path, None, edges)
    assert (data.n_edges, report.lines()) == (1, ())


def test_an_edge_file_without_edges_is_told(tmp_path):
    edges = put(tmp_path, "source,target\n", "edges.csv")
    data, report = read_tables(put(tmp_path, PLAIN), None, edges, needs_label=True)
    assert data.graph is None
    assert report.lines() == ("graph: edges.csv has no edges",)


def test_commas_and_points_where_they_are_not_clear(tmp_path):
    path = put(tmp_path, "id;pay\nann;61,333\nbob;12,500\n")
    data, report = read_tables(path)
    assert data.features.toarray()[0, 0] == np.float32(61.333)
    assert "--set decimal=." in report.lines()[0]
    assert read_tables(path, decimal=".")[0].features.toarray().ravel().tolist() == [61333, 12500]
    path = put(tmp_path, 'id,pay\nann,"61,333"\nbob,"12,500"\n')
    data, report = read_tables(path)
    assert data.features.toarray().ravel().tolist() == [61333, 12500]
    assert "--set decimal=," in report.lines()[0]
    clear = put(tmp_path, 'id,pay,size\nann,"61,333",1.5\nbob,"12,500",2.5\n')
    assert read_tables(clear)[0].features.toarray()[:, 0].tolist() == [61333, 12500]


@pytest.mark.parametrize("kind", ["csv.zip", "csv.gz", "csv.bz2", "jsonl.gz"])
def test_a_file_that_unpacks_to_far_more_than_its_size_is_refused(tmp_path, monkeypatch, kind):
    monkeypatch.setattr(table_text, "SMALL_BYTES", 2**16)
    line = '{"x": 1}\n' if "json" in kind else "1,2\n"
    path = write_packed(tmp_path, f".{kind}", "a,b\n" * ("csv" in kind) + line * 2_000_000)
    with pytest.raises(DataFormatError, match="unpack to at most"):
        read_data(path)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ('{"id": 1, "x": {"a": 1}}\n', "one value a cell, got dict"),
        ('{"id": 1, "x": [1]}\n', "one value a cell, got list"),
        ('{"id": "\\ud800", "x": 1}\n', "surrogates not allowed"),
        ('{"id": 1}\n[1, 2]\n', r"got '\[1, 2\]'"),
        ("[]", "got 'nothing'"),
    ],
)
def test_nested_json_is_refused_with_what_came(tmp_path, content, words):
    with pytest.raises(DataFormatError, match=words):
        read_data(put(tmp_path, content, "rows.jsonl"))
