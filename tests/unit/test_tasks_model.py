"""What a task says, what a malformed one is told, and expressions over axes."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forge.errors import UsageError
from forge.tasks import expressions
from forge.tasks.load import parse_task
from forge.tasks.model import TaskProblem

PATH = Path("wide/task.toml")
TEXT = """\
name = "wide"
op = "wide"
description = "Two numbers for one."

[axes]
rows = { type = "var" }
cols = { type = "var" }
pitch = { type = "var" }
pair = { type = "const", value = 2 }
twice = { type = "expr", expression = "pair * cols" }

[inputs.x]
shape = ["rows", "cols"]
dtype = "float32"
row_stride = "pitch"

[outputs.out]
shape = ["rows", "twice"]
dtype = "float32"

[[workloads]]
axes = { rows = 4, cols = 8, pitch = 9 }

[[workloads]]
axes = { rows = 1, cols = 1, pitch = 1 }
weight = 2

[holdouts]
ranges = { rows = [1, 9], cols = [1, 9], pitch = [0, 5] }
distributions = ["normal"]

[numeric]
c = 1
k = "cols"

[work]
bytes = "12 * rows * cols"
operations = "rows * (cols + 1)"
"""


def test_axes_resolve_in_declared_order_with_const_and_expr_axes():
    task = parse_task(TEXT, PATH)
    axes = task.resolve({"cols": 8, "rows": 4, "pitch": 9})
    assert list(axes.items()) == [
        ("rows", 4), ("cols", 8), ("pitch", 9), ("pair", 2), ("twice", 16),
    ]  # fmt: skip
    assert task.var_axes == ("rows", "cols", "pitch")
    assert task.shape(task.outputs["out"], axes) == (4, 16)
    assert task.elements(axes) == 64  # out; x has 4 rows of pitch 9
    assert (task.bytes_moved(axes), task.operations(axes), task.reduction(axes)) == (384, 36, 8)


def test_a_padded_input_counts_with_its_padding():
    task = parse_task(TEXT, PATH)
    assert task.elements(task.resolve({"rows": 4, "cols": 8, "pitch": 100})) == 400


@pytest.mark.parametrize(
    ("axes", "says"),
    [
        ({"rows": 1, "cols": 1}, "['rows', 'cols', 'pitch']"),
        ({"rows": 0, "cols": 1, "pitch": 1}, "rows is 0"),
        ({"rows": 1, "cols": 3, "pitch": 2}, "pitch is 2, less than a row of cols = 3"),
    ],
)
def test_impossible_axes_are_refused(axes: dict[str, int], says: str):
    with pytest.raises(ValueError, match=re.escape(says)):
        parse_task(TEXT, PATH).resolve(axes)


BROKEN = [
    # what is written, what it becomes, key named, what the sentence says
    ('op = "wide"', "op = 7", "op", "string"),
    ('op = "wide"\n', "", "op", "required"),
    ('description = "Two', 'descripton = "Two', "description", "required"),
    ('name = "wide"', 'name = "Wide!"', "name", "pattern"),
    ('expression = "pair * cols"', 'expression = "pair ** cols"', "axes.twice", "+ - * //"),
    ('expression = "pair * cols"', 'expression = "pair * width"', "axes.twice", "['width']"),
    ('expression = "pair * cols"', 'expression = "__import__(1)"', "axes.twice", "may only hold"),
    ("value = 2 }", "value = 0 }", "axes.pair", "greater than or equal to 1"),
    ('shape = ["rows", "cols"]', 'shape = ["rows", "width"]', "inputs.x", "'width'"),
    ('dtype = "float32"\nrow', 'dtype = "float8"\nrow', "inputs.x.dtype", "'float8'"),
    ('row_stride = "pitch"', 'row_stride = "twice"', "inputs.x.row_stride", "var axis"),
    ('row_stride = "pitch"', 'values = "index"', "inputs.x", "below"),
    ("[outputs.out]", "[outputs.x]", "outputs.x", "two arguments"),
    ("cols = 8, pitch = 9", "cols = 8, pitch = 7", "workloads.0.axes", "less than a row"),
    ("weight = 2", "weight = 0", "workloads.1.weight", "greater than 0"),
    ("weight = 2", 'distribution = "ties"', "workloads.1.distribution", "'ties'"),
    ("weight = 2", 'distribution = "gaussian"', "workloads.1.distribution", "wide_range"),
    ("weight = 2", 'split = "holdout"', "workloads.1.split", "tune"),
    ("pitch = [0, 5]", "pitch = [5, 0]", "holdouts", "[5, 0]"),
    (", pitch = [0, 5] }", " }", "holdouts.ranges", "pitch"),
    ("rows = [1, 9]", "rows = [600000, 700000]", "holdouts.ranges", "more than 1000000"),
    ('k = "cols"', 'k = "depth"', "numeric.k", "['depth']"),
    ("c = 1\n", "c = -1\n", "numeric.c", "greater than 0"),
    ('"rows * (cols + 1)"', '"rows * (cols + "', "work.operations", "not an expression"),
]


@pytest.mark.parametrize(("old", "new", "key", "says"), BROKEN, ids=lambda item: str(item)[:30])
def test_a_malformed_task_is_told_file_line_and_key(old: str, new: str, key: str, says: str):
    assert TEXT.count(old) == 1
    text = TEXT.replace(old, new)
    with pytest.raises(UsageError) as caught:
        parse_task(text, PATH)
    message = str(caught.value)
    found = re.match(r"wide/task\.toml, line (\d+), key ([\w.]+)", message)
    assert found is not None, message
    assert found[2].startswith(key)
    assert says in message
    assert "\n" not in message
    if new:  # the line is the one that was changed, or the header just above it
        changed = TEXT[: TEXT.index(old)].count("\n") + 1
        assert changed - 3 <= int(found[1]) <= changed + new.count("\n") or "required" in says


def test_a_syntax_error_is_told_its_line():
    with pytest.raises(UsageError, match=r"wide/task\.toml is not valid TOML: .*line 2"):
        parse_task('name = "wide"\nop = wide\n', PATH)


def test_an_unknown_key_is_refused_at_its_line():
    text = TEXT.replace("weight = 2", "wieght = 2")
    line = text[: text.index("wieght")].count("\n") + 1
    with pytest.raises(UsageError, match=rf"line {line}, key workloads\.1\.wieght"):
        parse_task(text, PATH)


NAMES = st.sampled_from(["rows", "cols"])
TREES = st.recursive(
    st.one_of(NAMES, st.integers(0, 99).map(str)),
    lambda inner: st.tuples(inner, st.sampled_from(["+", "-", "*"]), inner).map(
        lambda parts: f"({' '.join(parts)})"
    ),
    max_leaves=8,
)


@given(TREES, st.integers(1, 50), st.integers(1, 50))
def test_an_expression_means_what_python_means(text: str, rows: int, cols: int):
    axes = {"rows": rows, "cols": cols}
    assert expressions.evaluate(text, axes) == eval(text, {}, dict(axes))


@pytest.mark.parametrize(
    "text", ["", "rows.x", "rows[0]", "f(rows)", "1.5", "'a'", "rows ** 9", "rows / 2", "a if b",
             "lambda: 1", "rows; cols", "x := 1", "[1]", "~rows", "9" * 300, "True"],
)  # fmt: skip
def test_anything_else_is_no_expression(text: str):
    with pytest.raises(ValueError, match=r"express|may only hold"):
        expressions.parse(text)


def test_an_expression_that_cannot_be_computed_says_why():
    with pytest.raises(ValueError, match="divides by zero"):
        expressions.evaluate("rows // (rows - 2)", {"rows": 2})
    with pytest.raises(ValueError, match="depth"):
        expressions.evaluate("depth", {"rows": 2})
    assert expressions.evaluate("-rows // 2 + 10", {"rows": 5}) == 7


def test_a_problem_keeps_the_key_it_is_about():
    assert TaskProblem(("work", "bytes"), "no").where == ("work", "bytes")
