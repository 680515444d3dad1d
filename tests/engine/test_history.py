import json
import math

import pytest

from glnn.engine.history import History
from glnn.exceptions import DataFormatError

RECORDS = [
    {"stage": "classifier", "epoch": 0, "loss": 1.5},
    {"stage": "classifier", "epoch": 1, "loss": 0.1 + 0.2, "validation_loss": 1e-300},
]


@pytest.fixture
def history():
    history = History()
    for record in RECORDS:
        history.append(record)
    return history


def written(tmp_path, content):
    path = tmp_path / "history.jsonl"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def test_records_stay_in_the_order_they_came(history):
    assert list(history) == RECORDS
    assert len(history) == 2
    assert history[-1] == RECORDS[-1]


def test_a_column_is_empty_where_nothing_was_recorded(history):
    assert history.column("loss") == [1.5, 0.1 + 0.2]
    assert history.column("validation_loss") == [None, 1e-300]


def test_a_record_changed_after_it_was_appended_does_not_change_the_history():
    history, record = History(), {"epoch": 0}
    history.append(record)
    record["epoch"] = 9
    assert history[0] == {"epoch": 0}


def test_extending_appends_all_records_of_the_other(history):
    whole = History()
    whole.extend(history)
    whole.extend(history)
    assert list(whole) == RECORDS + RECORDS


def test_json_lines_come_back_bit_for_bit(history, tmp_path):
    assert list(History.read(written(tmp_path, history.to_jsonl()))) == RECORDS


def test_an_empty_history_comes_back_empty(tmp_path):
    assert len(History.read(written(tmp_path, History().to_jsonl()))) == 0


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_number_that_is_not_finite_is_written_as_null_and_read_as_nan(value, tmp_path):
    history = History()
    history.append({"loss": value, "epoch": 0})
    text = history.to_jsonl()
    assert json.loads(text, parse_constant=pytest.fail) == {"loss": None, "epoch": 0}
    back = History.read(written(tmp_path, text))
    assert math.isnan(back[0]["loss"])
    assert back.to_jsonl() == text


@pytest.mark.parametrize(
    "content",
    [
        '{"epoch": 0}\nloss\n',
        b'{"epoch": 0}\n\xff\xfe\n',
        '{"epoch": 0}\n' + "[" * 100_000,
        '{"epoch": 0}\n\n',
    ],
    ids=["text", "not utf-8", "too deep", "blank"],
)
def test_a_line_that_is_not_json_is_named_in_one_line(content, tmp_path):
    with pytest.raises(DataFormatError, match=r"history\.jsonl must .* line 2 is not JSON\.$"):
        History.read(written(tmp_path, content))


def test_a_line_that_is_not_an_object_is_named_in_one_line(tmp_path):
    with pytest.raises(DataFormatError, match=r"^history\.jsonl line 1 must be a JSON object\.$"):
        History.read(written(tmp_path, "[1, 2]\n"))
