"""Labels from and to the JSON of Label Studio, for plain choices: one class for each row.

A file is a list of tasks. A task has ``data``, the row, and ``annotations``; each of these has a
list ``result``, and an entry of type ``choices`` has the class in ``value.choices``.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from glnn.data.files import quote, quote_path, read_text, write_file
from glnn.exceptions import DataFormatError, InputError
from glnn.studio.session import LabelSession

_CONTROL, _OBJECT = "label", "row"  # names of the control and the object in Label Studio


def import_label_studio(session: LabelSession, path: str | Path) -> int:
    """Take labels from a file of Label Studio, as one act; return how many there were.

    Rows are found by the id column of the session's table in the data of each task. Of several
    annotations the last one counts that was not cancelled, a ground truth before others.
    """
    tasks, labels, known = _read_tasks(Path(path)), {}, set(session.ids)
    for number, task in enumerate(tasks, start=1):
        where = f"task {number} of {quote_path(Path(path))}"
        value = _find_choice(task, where)
        if value is None:
            continue
        row = task.get("data", {}).get(session.source.id_name)
        if str(row) not in known:
            raise InputError(
                f"{where} must name a row by {quote(session.source.id_name)} in its data, got "
                f"{quote(row)}."
            )
        labels[str(row)] = value
    session.import_labels(labels)
    return len(labels)


def export_label_studio(session: LabelSession, path: str | Path) -> int:
    """Write all rows as tasks of Label Studio; return how many have a label.

    Labels are annotations, and the predictions of the last fit are predictions. A labelling
    configuration for them has ``<Choices name="label" toName="row">``.
    """
    labels, tasks = session.labels, []
    for name in session.ids:
        card = session.card(name)
        task: dict[str, Any] = {"data": {**dict(card["values"]), session.source.id_name: name}}
        task["annotations"] = [{"result": [_choice(labels[name])]}] if name in labels else []
        if card["predicted"] is not None:
            found = {"model_version": "glnn", "score": card["probabilities"][0][1]}
            task["predictions"] = [found | {"result": [_choice(card["predicted"])]}]
        tasks.append(task)
    text = json.dumps(tasks, ensure_ascii=False, indent=1, allow_nan=False)
    write_file(Path(path), text)
    return len(labels)


def _choice(value: str) -> dict[str, Any]:
    names = {"from_name": _CONTROL, "to_name": _OBJECT, "type": "choices"}
    return {**names, "value": {"choices": [value]}}


def _read_tasks(path: Path) -> list[dict[str, Any]]:
    try:
        tasks = json.loads(read_text(path))
    except (ValueError, RecursionError) as error:
        raise DataFormatError(f"{quote_path(path)} must be JSON, got: {error}.") from None
    if not isinstance(tasks, list) or not all(isinstance(task, dict) for task in tasks):
        raise DataFormatError(
            f"{quote_path(path)} must be a list of tasks, as Label Studio exports as JSON, got "
            "something else."
        )
    return tasks


def _find_choice(task: Mapping[str, Any], where: str) -> Any:
    """Return the class that a task was given, or ``None``."""
    try:
        valid = [one for one in task.get("annotations") or () if not one.get("was_cancelled")]
        truth = [one for one in valid if one.get("ground_truth")]
        if not isinstance(task.get("data", {}), Mapping):
            raise TypeError("data")
        results = (truth or valid)[-1]["result"] if valid else []
        found = [one["value"]["choices"] for one in results if one.get("type") == "choices"]
        choices = [choice for part in found for choice in part]
    except (TypeError, LookupError, AttributeError) as error:
        raise DataFormatError(
            f"{where} must have annotations with a result, got none that can be read ({error})."
        ) from None
    if len(choices) > 1:
        raise InputError(
            f"{where} must have one choice, got {len(choices)}. A row has one class: export single "
            "choices, or merge them first."
        )
    return choices[0] if choices else None
