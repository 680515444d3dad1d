"""Tables as people have them: each is read correctly or refused with a clear error line."""

import numpy as np
import pandas as pd
import pytest

from glnn.data import read_tables
from glnn.exceptions import InputError

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
        ("\n", ("column names",)),
        ("id,age,label\n", ("at least one row",)),
        ("id,age\nann,1\nann,2\n", ("'ann' twice", "Remove or merge")),
        ("id,age\nann,1\n,2\n", ("empty one in row 2",)),
        ("id;pay\nann;61,333\nbob;12,500\n", ("'61,333'", "--set decimal=.", "--set decimal=,")),
        ("id,age\nann,1\nbob,\n", ("'age'", "row 2", "--missing median")),
        ("id,born\nann,2001-05-09\n", ("'born'", "dates", "--set dates=true")),
        ("id,born\nann,01/02/2001\n", ("'born'", "YYYY-MM-DD")),
        ("id,city\nann,Rome\n", ("'city'", "'Rome'", "--encode auto", "--drop 'city'")),
        ("id,age\nann,1,2\n", ("as many cells",)),
        ("id,age\nann,inf\n", ("'inf'", "row 1")),
        ("id,age\nann,1e39\n", ("row 1", "--drop 'age'")),
        ("a,a\n1,2\n", ("'a' twice",)),
        ("a,,c\n1,2,3\n", ("column 2",)),
        ("a,b\n1,2\n1,2,3\n", ("Expected 2 fields in line 3",)),
        ('a,b\n"1,2\n', ("CSV",)),
        (b"id,age\n\xe9,1\n", ("--set encoding",)),
    ],
)
def test_a_table_that_cannot_be_is_answered_in_one_right_line(tmp_path, content, words):
    with pytest.raises(InputError) as caught:
        read_tables(put(tmp_path, content))
    message = str(caught.value)
    assert "\n" not in message
    assert "people.csv" in message
    assert all(word in message for word in words), message


def test_a_pay_of_thousands_is_read_when_the_mark_is_named_or_clear(tmp_path):
    path = put(tmp_path, "id;pay\nann;61,333\nbob;12,500\n")
    assert read_tables(path, decimal=".")[0].features.toarray().ravel().tolist() == [61333, 12500]
    assert read_tables(path, decimal=",")[0].features.toarray()[0, 0] == np.float32(61.333)
    clear = put(tmp_path, 'id,pay,size\nann,"61,333",1.5\nbob,"12,500",2.5\n')
    assert read_tables(clear)[0].features.toarray()[:, 0].tolist() == [61333, 12500]


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_five_thousand_rows(tmp_path, suffix):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "customer_id": [f"c{k}" for k in range(5_000)],
            "age": np.where(rng.random(5_000) < 0.1, np.nan, rng.integers(18, 90, 5_000)),
            "city": rng.choice([f"town {k}" for k in range(400)], 5_000),
            "since": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 900, 5_000), "D"),
            "constant": 1,
            "label": rng.choice(["loyal", "lost", ""], 5_000),
        }
    )
    path = tmp_path / f"customers{suffix}"
    frame.to_csv(path, index=False) if suffix == ".csv" else frame.to_parquet(path, index=False)
    data, report = read_tables(path, encode="auto", missing="indicator", drop_constant=True)
    assert data.feature_names == ("age", "age is missing", "city", "since")
    assert data.ids[-1] == "c4999"
    assert data.class_names == ("lost", "loyal")
    ages, gaps, cities, days = data.features.toarray().T
    assert np.array_equal(gaps == 1, frame["age"].isna())
    assert set(ages[gaps == 1]) == {np.float32(frame["age"].median())}
    shares = frame["city"].map(frame["city"].value_counts(normalize=True))
    assert np.allclose(cities, shares)
    assert np.array_equal(days, (frame["since"] - frame["since"].min()).dt.days)
    assert report.lines() == (
        "ids: taken from the column 'customer_id'",
        "features: took the share of rows with the same value of 'city'",
        "features: took days since the first date of 'since'",
        "features: filled gaps with the median of 'age'",
        "features: added a column that marks the gaps of 'age'",
        "features: left out, one value or all different: 'constant'",
    )


def test_without_a_label_the_likeliest_column_is_offered(tmp_path):
    rows = "".join(f"{k},{k * 1.5},{['loyal', 'lost', ''][k % 3]}\n" for k in range(9))
    path = put(tmp_path, "id,age,status\n" + rows)
    with pytest.raises(InputError, match=r"Is it 'status'\? Then add --label 'status'"):
        read_tables(path, needs_label=True)
    path = put(tmp_path, "id,age\nann,1.5\nbob,2.5\n")
    with pytest.raises(InputError, match="--labels"):
        read_tables(path, needs_label=True)
    assert read_tables(path)[0].n_nodes == 2
