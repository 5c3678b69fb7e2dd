"""Every task of the catalogue keeps the promises that the judge, students and teacher rely on."""

from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from forge.errors import UsageError
from forge.tasks.controls import check_controls
from forge.tasks.draws import make_draw
from forge.tasks.holdouts import draw_holdouts
from forge.tasks.load import LoadedTask, find_tasks, load_task
from forge.tasks.model import DISTRIBUTIONS
from forge.tasks.numeric import allowed, compare
from forge.tasks.reference import load_reference
from forge.tasks.scaffold import new_task

CATALOG = Path(__file__).parents[2] / "baselines" / "catalog"
TASKS = find_tasks([CATALOG])
OPS = {
    "add_rmsnorm", "bias_gelu", "cross_entropy", "cumsum", "geglu", "l2_normalize", "layernorm",
    "log_softmax", "masked_softmax", "rmsnorm", "rope", "row_sum", "softmax", "swiglu",
}  # fmt: skip
each_task = pytest.mark.parametrize("loaded", TASKS.values(), ids=list(TASKS))


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def test_the_catalogue_holds_the_promised_operations():
    assert set(TASKS) >= OPS


@each_task
class TestTask:
    def test_workloads_are_sizes_that_people_run(self, loaded: LoadedTask):
        task = loaded.task
        sizes: list[int] = []
        ugly = False
        for workload in task.workloads:
            axes = task.resolve(workload.axes)
            main = next(iter(task.inputs.values()))
            shape = task.shape(main, axes)
            sizes.append(torch.Size(shape).numel())
            ugly |= all(axes[name] % 2 for name in task.var_axes)
        assert len(sizes) in (3, 4)
        assert 1_000_000 <= max(sizes) <= 2_100_000
        assert min(sizes) < 40_000
        assert ugly
        assert any(workload.protected for workload in task.workloads)

    def test_holdouts_reach_one_row_one_column_and_misaligned_buffers(self, loaded: LoadedTask):
        rules = loaded.task.holdouts
        assert all(rules.ranges[axis][0] <= 1 for axis in loaded.task.var_axes)
        assert {0, 1} < set(rules.offsets)
        assert 4 <= len(rules.distributions) <= 8
        assert "normal" in rules.distributions

    def test_the_work_is_at_least_one_pass_over_the_tensors(self, loaded: LoadedTask):
        task = loaded.task
        axes = task.resolve(task.workloads[0].axes)
        specs = [*task.inputs.values(), *task.outputs.values()]
        widths = {"float32": 4, "int64": 8, "int32": 4, "bool": 1}
        moved = sum(torch.Size(task.shape(s, axes)).numel() * widths[s.dtype] for s in specs)
        assert task.bytes_moved(axes) == moved
        assert 0 < task.operations(axes) < 100 * task.elements(axes)

    def test_null_controls_fail_and_the_reference_passes(self, loaded: LoadedTask):
        results = check_controls(loaded)
        assert [result.reason for result in results if not result.ok] == []
        assert {result.distribution for result in results} == set(
            loaded.task.holdouts.distributions
        )
        assert {"reference", "rounded", "zeros", "constant", "previous"} < {
            result.control for result in results
        }

    def test_outputs_have_the_declared_shapes_in_both_precisions(self, loaded: LoadedTask):
        task = loaded.task
        reference = load_reference(loaded.reference_source)
        for workload in draw_holdouts(task, b"\7" * 32, 8):
            axes = task.resolve(workload.axes)
            inputs = make_draw(task, axes, workload.distribution, seed=5)
            kept = [value.clone() for value in inputs]
            wide = tuple(v.double() if v.is_floating_point() else v for v in inputs)
            expected = reference.run(*wide)
            terms = reference.terms(wide, expected)
            shapes = [task.shape(spec, axes) for spec in task.outputs.values()]
            assert [tuple(value.shape) for value in expected] == shapes
            assert [tuple(value.shape) for value in terms] == shapes
            assert all(value.dtype == torch.float64 for value in (*expected, *terms))
            assert all(bool((value >= 0).all()) for value in terms)
            assert all(bool(value.isfinite().all()) for value in terms)
            narrow = reference.run(*inputs)
            assert all(value.dtype == torch.float32 for value in narrow)
            assert compare(narrow, expected, allowed(task, axes, expected, terms)).is_within
            assert all(torch.equal(a, b) for a, b in zip(inputs, kept, strict=True))

    def test_a_draw_follows_from_its_arguments_alone(self, loaded: LoadedTask):
        task = loaded.task
        axes = task.workloads[-1].axes
        for distribution in task.holdouts.distributions:
            one = make_draw(task, axes, distribution, seed=11)
            torch.rand(3)  # the process's own generator plays no part
            torch.set_num_threads(2)
            other = make_draw(task, axes, distribution, seed=11)
            torch.set_num_threads(1)
            assert all(torch.equal(a, b) for a, b in zip(one, other, strict=True))
            apart = make_draw(task, axes, distribution, seed=12)
            assert not all(torch.equal(a, b) for a, b in zip(one, apart, strict=True))
            for value, spec in zip(one, task.inputs.values(), strict=True):
                assert value.is_contiguous()
                assert value.dtype == getattr(torch, spec.dtype)


def test_one_missing_element_or_row_is_seen_everywhere():
    for loaded in TASKS.values():
        task, reference = loaded.task, load_reference(loaded.reference_source)
        axes = task.resolve(task.workloads[-1].axes)
        inputs = make_draw(task, axes, "normal", seed=3)
        wide = tuple(v.double() if v.is_floating_point() else v for v in inputs)
        expected = reference.run(*wide)
        bounds = allowed(task, axes, expected, reference.terms(wide, expected))
        for missing in (torch.nan, 0.0, 12345.0):
            outputs = [value.clone() for value in reference.run(*inputs)]
            last = outputs[-1].flatten()
            last[int(expected[-1].abs().argmax())] = missing
            found = compare([*outputs[:-1], last.view_as(outputs[-1])], expected, bounds)
            assert not found.is_within, (task.name, missing)
            assert found.index == int(expected[-1].abs().argmax())
            assert found.output == len(outputs) - 1


def test_a_cosine_and_a_sine_belong_to_one_angle():
    task = TASKS["rope"].task
    _, cos, sin = make_draw(task, task.workloads[0].axes, "normal", seed=1)
    length = cos.double() ** 2 + sin.double() ** 2
    assert float((length - 1.0).abs().max()) < 4 * 2.0**-23  # three roundings each
    assert float(cos.min()) < -0.7
    assert float(sin.min()) < -0.7


def test_a_mask_has_empty_sparse_and_full_rows():
    task = TASKS["masked_softmax"].task
    _, mask = make_draw(task, task.workloads[0].axes, "normal", seed=1)
    shares = mask.float().mean(dim=-1)
    assert float(shares.min()) == 0.0
    assert float(shares.max()) == 1.0
    assert 0.4 < float(shares.mean()) < 0.6


def test_the_distributions_are_what_they_are_called():
    text = (CATALOG / "softmax" / "task.toml").read_text()
    drawn = {}
    for name in DISTRIBUTIONS:
        (drawn[name],) = make_draw(TASKS["softmax"].task, {"rows": 64, "cols": 96}, name, seed=2)
    assert "shifted" in text
    finite = {name: value[value.isfinite()] for name, value in drawn.items()}
    assert abs(float(finite["normal"].mean())) < 0.05
    assert float(finite["shifted"].min()) > 4000
    assert 0.9 < float(finite["shifted"].std()) < 1.1
    assert 900 < float(finite["large"].std()) < 1150
    assert float(finite["huge"].abs().max()) < 1e12
    assert float(finite["tiny"].abs().max()) < 0.02
    assert 0 < float(finite["denormals"].abs().max()) < 2.0**-126
    assert len(finite["ties"].unique()) == 17
    assert bool((drawn["constant"].std(dim=-1) == 0).all())
    assert bool((drawn["sorted"].diff(dim=-1) >= 0).all())
    assert bool(((drawn["one_hot"] != 0).sum(dim=-1) == 1).all())
    ratio = finite["wide_range"].abs().max() / finite["wide_range"].abs().median()
    assert float(ratio) > 1000
    gone = drawn["with_infinities"].isinf().float().mean(dim=-1)
    assert 0.2 < float(gone.mean()) < 0.4
    assert float(gone.max()) < 1.0
    assert len(finite) == len(DISTRIBUTIONS)


VALUES = st.floats(-(2.0**127), 2.0**127, width=32)


@given(VALUES, st.sampled_from([-9, -2, -1, 0, 1, 2, 9]), st.booleans())
@settings(max_examples=300, deadline=None)
def test_two_ulp_are_always_allowed_and_never_nan_for_a_number(value: float, ulps: int, nan: bool):
    task = TASKS["rope"].task
    axes = task.resolve({"tokens": 1, "heads": 1, "pairs": 1})
    exact = torch.tensor([value], dtype=torch.float64)
    got = exact.float()
    for _ in range(abs(ulps)):
        got = torch.nextafter(got, torch.tensor([torch.inf if ulps > 0 else -torch.inf]))
    bounds = allowed(task, axes, [exact], [torch.zeros(1, dtype=torch.float64)])
    found = compare([torch.full_like(got, torch.nan) if nan else got], [exact], bounds)
    if nan or bool(got.isinf()):
        assert not found.is_within
    else:
        # 2 eps |value| is 2 to 4 ulp of it; nine steps are at least 4.5, even down a binade.
        assert found.is_within == (abs(ulps) <= 2)


def test_infinities_and_nans_must_be_where_they_are_expected():
    task = TASKS["rope"].task
    axes = task.resolve({"tokens": 1, "heads": 1, "pairs": 1})
    exact = torch.tensor([torch.inf, -torch.inf, torch.nan, 1e300, 1.0], dtype=torch.float64)
    bounds = allowed(task, axes, [exact], [torch.ones(5, dtype=torch.float64)])
    right = exact.float()
    assert compare([right], [exact], bounds).is_within
    for place in range(5):
        for wrong in (0.0, torch.inf, -torch.inf, torch.nan, 3e38):
            got = right.clone()
            got[place] = wrong
            same = right[place] == wrong or (place == 2 and wrong != wrong)
            assert compare([got], [exact], bounds).is_within == bool(same)


def test_the_reference_may_err_and_four_times_as_much_is_allowed():
    task = TASKS["rope"].task
    axes = task.resolve({"tokens": 1, "heads": 1, "pairs": 1})
    exact, zero = torch.ones(2, dtype=torch.float64), torch.zeros(2, dtype=torch.float64)
    bounds = allowed(task, axes, [exact], [zero], [torch.tensor([1.0 + 2.0**-10, torch.nan])])
    assert bounds[0].tolist() == [4 * 2.0**-10, 2 * 2.0**-23]


def test_a_new_task_works_as_written(tmp_path: Path):
    loaded = load_task(new_task(tmp_path / "tasks", "my_silu"))
    assert loaded.task.name == "my_silu"
    assert [result.reason for result in check_controls(loaded) if not result.ok] == []
    with pytest.raises(UsageError, match="already exists"):
        new_task(tmp_path / "tasks", "my_silu")
    with pytest.raises(UsageError, match="not a task name"):
        new_task(tmp_path / "tasks", "../escape")


def test_a_task_that_a_constant_passes_is_not_sound(tmp_path: Path):
    folder = new_task(tmp_path, "silly")
    manifest = folder / "task.toml"
    manifest.write_text(manifest.read_text().replace("c = 8", "c = 1e12"))
    bad = [result for result in check_controls(load_task(folder)) if not result.ok]
    assert {"zeros", "constant", "previous"} <= {result.control for result in bad}
    assert all("too large" in result.reason for result in bad)


def test_folders_are_read_and_what_is_wrong_with_them_said(tmp_path: Path):
    folder = new_task(tmp_path / "one", "mine")
    before = load_task(folder)
    (folder / "reference.py").write_text("raise SystemExit('never executed by the loader')\n")
    after = load_task(folder)
    assert after.digest != before.digest
    new_task(tmp_path / "two", "mine")
    with pytest.raises(UsageError, match="Two tasks are called 'mine'"):
        find_tasks([tmp_path / "one", tmp_path / "two"])
    assert find_tasks([tmp_path / "none"]) == {}
    folder.rename(tmp_path / "one" / "other")
    with pytest.raises(UsageError, match=r"line 4, key name: .*'mine' but its folder 'other'"):
        find_tasks([tmp_path / "one"])
    (tmp_path / "one" / "other" / "reference.py").unlink()
    with pytest.raises(UsageError, match=r"reference\.py cannot be read"):
        find_tasks([tmp_path / "one"])


@pytest.mark.parametrize(
    ("source", "says"),
    [("import nothing_like_it", "ModuleNotFoundError"), ("def run(", "SyntaxError"),
     ("def run(x):\n    return x", "no function terms")],
)  # fmt: skip
def test_a_broken_reference_is_its_authors_error(source: str, says: str):
    with pytest.raises(UsageError, match=says):
        load_reference(source)
