"""Small faults in source code by Cosmic Ray: a changed operator, number or condition."""

import ast
import difflib

_BINARY = ("Add_Sub", "Sub_Add", "Mul_Div", "Div_Mul")
_COMPARED = ("Lt_LtE", "Lt_GtE", "LtE_Lt", "LtE_Gt", "Gt_GtE", "Gt_LtE", "GtE_Gt", "GtE_Lt")
OPERATORS = (
    *(f"core/ReplaceBinaryOperator_{pair}" for pair in _BINARY),
    *(f"core/ReplaceComparisonOperator_{pair}" for pair in (*_COMPARED, "Eq_NotEq", "NotEq_Eq")),
    "core/ReplaceUnaryOperator_Delete_USub",
    "core/ReplaceUnaryOperator_Delete_Not",
    "core/NumberReplacer",
    "core/AddNot",
    "core/ReplaceAndWithOr",
    "core/ReplaceOrWithAnd",
    "core/ReplaceTrueWithFalse",
    "core/ReplaceFalseWithTrue",
    "core/ReplaceBreakWithContinue",
    "core/ZeroIterationForLoop",
)


def faults(source, rng, most):
    """Return at most ``most`` random faults, each as its operator and the changed text."""
    from cosmic_ray.mutating import mutate_code
    from cosmic_ray.plugins import get_operator

    found = []
    for name in OPERATORS:
        operator, occurrence = get_operator(name)(), 0
        while (text := mutate_code(source, operator, occurrence)) is not None:
            occurrence += 1
            if text != source and _is_code(source, text):
                found.append((name.removeprefix("core/"), text))
    drawn = rng.sample(found, min(most, len(found)))
    return [(name, text) for name, text in drawn if text != _without_stars(source, text)]


def _without_stars(source, text):
    """Return the source with the star of the changed signature replaced by a slash."""
    line = changed_line(source, text) - 1
    lines = source.splitlines(keepends=True)
    lines[line] = lines[line].replace("*,", "/,", 1)
    return "".join(lines)


def _is_code(source, text):
    """Return whether the fault changes code, not a signature, docstring or message."""
    changed = [line[1:].strip() for line in difference(source, text) if line[:1] in "+-"]
    return not any(line.startswith(("def ", "@", '"', "f'", 'f"', ">>>")) for line in changed)


def difference(source, text):
    """Return the changed lines, old and new, each with its sign."""
    lines = difflib.unified_diff(source.splitlines(), text.splitlines(), lineterm="", n=0)
    return [line for line in lines if not line.startswith(("---", "+++", "@@"))]


def changed_line(source, text):
    r"""Return the number of the first line that differs, from 1 on.

    >>> changed_line("a = 1\nb = 2", "a = 1\nb = 3")
    2
    """
    pairs = zip(source.splitlines(), text.splitlines(), strict=False)
    return next(i for i, (old, new) in enumerate(pairs, 1) if old != new)


def statement_lines(source, line):
    r"""Return the lines of the innermost statement around a line, without those nested in it.

    >>> statement_lines("if a:\n    b = (\n        1\n    )", 3)
    range(2, 5)
    >>> statement_lines("if a:\n    b = 1", 1)
    range(1, 2)
    """
    around = [
        node
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.stmt) and node.lineno <= line <= node.end_lineno
    ]
    node = max(around, key=lambda node: node.lineno)
    body = getattr(node, "body", None)
    return range(node.lineno, body[0].lineno if body else node.end_lineno + 1)
