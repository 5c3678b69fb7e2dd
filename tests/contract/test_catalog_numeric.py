"""The numeric contract lets every honest float32 kernel through and no dishonest one.

Honest kernels are float32 emulations in NumPy, differing in their order of summation and in their
exp, erf and tanh; dishonest ones are what students are tempted to write.
"""

import itertools
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from forge.tasks.draws import make_draw
from forge.tasks.load import find_tasks
from forge.tasks.numeric import Comparison, allowed, compare
from forge.tasks.reference import load_reference

CATALOG = Path(__file__).parents[2] / "baselines" / "catalog"
TASKS = find_tasks([CATALOG])
REFERENCES = {name: load_reference(task.reference_source) for name, task in TASKS.items()}
F = np.float32
Array = np.ndarray
Sum = Callable[[Array], Array]


def sequential(x: Array) -> Array:
    """One accumulator, left to right: the worst order there is."""
    return np.add.accumulate(x, axis=-1, dtype=F)[..., -1:]


def lanes(x: Array) -> Array:
    """Sixteen accumulators, then left to right."""
    padded = np.zeros((*x.shape[:-1], -(-x.shape[-1] // 16) * 16), F)
    padded[..., : x.shape[-1]] = x
    columns = padded.reshape(*x.shape[:-1], -1, 16)
    return sequential(np.add.accumulate(columns, axis=-2, dtype=F)[..., -1, :])


def pairwise(x: Array) -> Array:
    """A tree."""
    while x.shape[-1] > 1:
        if x.shape[-1] % 2:
            x = np.concatenate([x, np.zeros((*x.shape[:-1], 1), F)], axis=-1)
        x = x[..., ::2] + x[..., 1::2]
    return x


def fused_squares(x: Array) -> Array:
    """Sum of squares, one accumulator, fused multiply-add (rounded once, from float64)."""
    total = np.zeros(x.shape[:-1], F)
    for column in np.moveaxis(x, -1, 0).astype(np.float64):
        total = (column * column + total).astype(F)
    return total[..., None]


def exp(x: Array) -> Array:
    """Degree 6 after a range reduction by two constants; zero below the normal numbers."""
    x = x.astype(F)
    n = np.rint(np.clip(x, -200.0, 100.0) * F(1.44269504))
    r = (np.clip(x, -200.0, 100.0) - n * F(0.693359375)) + n * F(2.12194440e-4)
    p = F(1.0 / 720.0)
    for c in (1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5, 1.0, 1.0):
        p = p * r + F(c)
    return np.where(x < F(-87.3), F(0.0), np.ldexp(p, n.astype(np.int32))).astype(F)


def exp_base2(x: Array) -> Array:
    """2^(x log2 e): the product's rounding error grows with |x|."""
    return np.exp2((x * F(1.44269504)).astype(F)).astype(F)


def erf(x: Array) -> Array:
    """Abramowitz and Stegun 7.1.26: absolute error 1.5e-7."""
    t = F(1.0) / (F(1.0) + F(0.3275911) * np.abs(x))
    p = F(1.061405429)
    for c in (-1.453152027, 1.421413741, -0.284496736, 0.254829592):
        p = p * t + F(c)
    return np.sign(x) * (F(1.0) - p * t * exp(-x * x))


def tanh(x: Array, power: Callable[[Array], Array]) -> Array:
    return F(1.0) - F(2.0) / (power(np.clip(F(2.0) * x, -80.0, 80.0)) + F(1.0))


def softmax(x: Array, total: Sum, power: Callable[[Array], Array]) -> Array:
    e = power(x - x.max(axis=-1, keepdims=True))
    return e * (F(1.0) / total(e))


def log_sum(x: Array, total: Sum, power: Callable[[Array], Array]) -> Array:
    return np.log(total(power(x - x.max(axis=-1, keepdims=True))))


def masked_softmax(scores: Array, mask: Array, total: Sum, power: Callable) -> Array:
    kept = np.where(mask, scores, F(-np.inf))
    largest = kept.max(axis=-1, keepdims=True)
    e = power(kept - np.where(np.isinf(largest), F(0.0), largest))
    bottom = total(e)
    return e / np.where(bottom == 0.0, F(1.0), bottom)


def rmsnorm(x: Array, w: Array, squares: Sum) -> Array:
    return x * (F(1.0) / np.sqrt(squares(x) / F(x.shape[-1]) + F(1e-6))) * w


def layernorm(x: Array, w: Array, b: Array, total: Sum) -> Array:
    d = x - total(x) * F(1.0 / x.shape[-1])
    return d * (F(1.0) / np.sqrt(total(d * d) / F(x.shape[-1]) + F(1e-5))) * w + b


def gelu_tanh(h: Array, power: Callable[[Array], Array]) -> Array:
    u = F(0.79788456) * (h + F(0.044715) * h * h * h)
    return F(0.5) * h * (F(1.0) + tanh(u, power))


def honest(op: str, v: Sequence[Array], total: Sum, power: Callable) -> list[Array]:
    """Return what an honest float32 kernel of ``op`` writes for the inputs ``v``."""

    def squares(x: Array) -> Array:
        return fused_squares(x) if total is sequential else total(x * x)

    def rope(q: Array, cos: Array, sin: Array) -> Array:
        a, b = np.split(q, 2, axis=-1)
        c, s = cos[:, None], sin[:, None]
        return np.concatenate([a * c - b * s, b * c + a * s], axis=-1)

    def cross_entropy(x: Array, labels: Array) -> Array:
        lse = x.max(axis=-1, keepdims=True) + log_sum(x, total, power)
        return (lse - np.take_along_axis(x, labels[:, None], axis=-1))[:, 0]

    def cumsum(x: Array) -> Array:
        if total is sequential:
            return np.add.accumulate(x, axis=-1, dtype=F)
        # Blocks of 16, then a running carry: what a vectorised prefix sum does.
        blocks = [np.add.accumulate(x[:, i : i + 16], axis=-1) for i in range(0, x.shape[1], 16)]
        for left, right in itertools.pairwise(blocks):
            right += left[:, -1:]
        return np.concatenate(blocks, axis=-1)

    table: dict[str, Callable[..., object]] = {
        "softmax": lambda x: softmax(x, total, power),
        "log_softmax": lambda x: x - (x.max(axis=-1, keepdims=True) + log_sum(x, total, power)),
        "masked_softmax": lambda x, mask: masked_softmax(x, mask, total, power),
        "cross_entropy": cross_entropy,
        "rmsnorm": lambda x, w: rmsnorm(x, w, squares),
        "add_rmsnorm": lambda x, r, w: [x + r, rmsnorm(x + r, w, squares)],
        "layernorm": lambda x, w, b: layernorm(x, w, b, total),
        "l2_normalize": lambda x: x / np.maximum(np.sqrt(squares(x)), F(1e-12)),
        "bias_gelu": lambda x, b: gelu_tanh(x + b, power),
        "geglu": lambda g, u: F(0.5) * g * (F(1.0) + erf(g * F(0.70710678))) * u,
        "swiglu": lambda g, u: g / (F(1.0) + power(-g)) * u,
        "rope": rope,
        "row_sum": lambda x: total(x)[:, 0],
        "cumsum": cumsum,
    }
    with np.errstate(all="ignore"):
        result = table[op](*v)
    return list(result) if isinstance(result, list) else [result]  # type: ignore[list-item]


def judge(
    op: str, axes: dict[str, int], distribution: str, seed: int, kernel: Callable[..., list[Array]]
) -> Comparison:
    """Compare ``kernel`` on one draw with the reference, as the oracle does at first."""
    task, reference = TASKS[op].task, REFERENCES[op]
    whole = task.resolve(axes)
    inputs = make_draw(task, whole, distribution, seed)
    wide = tuple(value.double() if value.is_floating_point() else value for value in inputs)
    expected = reference.run(*wide)
    bounds = allowed(task, whole, expected, reference.terms(wide, expected))
    outputs = kernel(*[value.numpy() for value in inputs])
    assert all(value.dtype == F for value in outputs), [value.dtype for value in outputs]
    return compare([torch.from_numpy(np.ascontiguousarray(v)) for v in outputs], expected, bounds)


def axes_of(op: str, rows: int, cols: int) -> dict[str, int]:
    if op == "rope":
        return {"tokens": rows, "heads": 3, "pairs": max(1, cols // 8)}
    return {"rows": rows, "cols": cols} | ({"x_stride": cols} if op == "swiglu" else {})


every_op = pytest.mark.parametrize("op", list(TASKS))


@every_op
@pytest.mark.parametrize("total", [sequential, lanes, pairwise])
@pytest.mark.parametrize("power", [exp, exp_base2])
def test_honest_kernels_pass_on_every_distribution(op: str, total: Sum, power: Callable):
    for distribution in TASKS[op].task.holdouts.distributions:
        for rows, cols in ((1, 1), (3, 7), (16, 257), (4, 5000)):
            found = judge(
                op, axes_of(op, rows, cols), distribution, 17,
                lambda *v: honest(op, v, total, power),
            )  # fmt: skip
            assert found.is_within, (distribution, rows, cols, found)


@every_op
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_honest_kernels_pass_on_any_legal_shape(op: str, data: st.DataObject):
    rows, cols = data.draw(st.integers(1, 24)), data.draw(st.integers(1, 2000))
    distribution = data.draw(st.sampled_from(TASKS[op].task.holdouts.distributions))
    total = data.draw(st.sampled_from([sequential, lanes, pairwise]))
    seed = data.draw(st.integers(0, 2**62))
    axes = axes_of(op, rows, cols)
    found = judge(op, axes, distribution, seed, lambda *v: honest(op, v, total, exp))
    assert found.is_within, found


@pytest.mark.parametrize("op", ["softmax", "log_softmax", "masked_softmax", "cross_entropy"])
def test_equal_numerators_summed_in_order_still_pass(op: str):
    # Equal terms round the same way within a binade, so that errors add up instead of cancelling.
    for cols in (1500, 2048, 4096, 5000):
        for seed in range(4):
            found = judge(
                op, {"rows": 2, "cols": cols}, "ties", seed,
                lambda *v: honest(op, v, sequential, exp),
            )  # fmt: skip
            assert found.is_within, (cols, seed, found)


def half(kind: torch.dtype) -> Callable[[Array], Array]:
    return lambda x: torch.from_numpy(x).to(kind).float().numpy()


def naive_layernorm(x: Array, w: Array, b: Array) -> Array:
    mean, square = pairwise(x) / F(x.shape[-1]), pairwise(x * x) / F(x.shape[-1])
    variance = np.maximum(square - mean * mean, F(0.0))
    return (x - mean) / np.sqrt(variance + F(1e-5)) * w + b


def no_max(x: Array) -> Array:
    return np.exp(x) / pairwise(np.exp(x))


def no_epsilon(x: Array, w: Array) -> Array:
    return x / np.sqrt(pairwise(x * x) / F(x.shape[-1])) * w


def skip_last(x: Array) -> Array:
    return pairwise(x[..., :-1]) if x.shape[-1] > 1 else x * F(0.0)


def sampled(x: Array) -> Array:
    """The sum of three quarters of a row, scaled."""
    keep = x[..., np.arange(x.shape[-1]) % 4 != 3]
    return pairwise(keep) * F(4.0 / 3.0)


f16, bf16 = half(torch.float16), half(torch.bfloat16)
DISHONEST: list[tuple[str, str, str, Callable[..., Array]]] = [
    # op, distribution of the draw, what is wrong, kernel
    ("softmax", "shifted", "no max", no_max),
    ("softmax", "large", "no max", no_max),
    ("softmax", "normal", "bf16 exp", lambda x: softmax(x, pairwise, lambda v: bf16(np.exp(v)))),
    ("softmax", "normal", "fp16 exp", lambda x: softmax(x, pairwise, lambda v: f16(np.exp(v)))),
    ("softmax", "normal", "sampled sum", lambda x: softmax(x, sampled, np.exp)),
    ("softmax", "normal", "last one left out", lambda x: softmax(x, skip_last, np.exp)),
    ("softmax", "normal", "exp of degree 4", lambda x: softmax(x, pairwise, crude_exp)),
    ("log_softmax", "shifted", "no max", lambda x: x - np.log(pairwise(np.exp(x)))),
    ("log_softmax", "normal", "sampled sum", lambda x: x - x.max(-1, keepdims=True)
     - log_sum(x, sampled, np.exp)),
    ("masked_softmax", "normal", "mask ignored", lambda x, m: softmax(x, pairwise, np.exp)),
    ("masked_softmax", "normal", "NaN for an empty row",
     lambda x, m: softmax(np.where(m, x, F(-np.inf)), pairwise, np.exp)),
    ("masked_softmax", "normal", "masked by -30", lambda x, m: softmax(
        np.where(m, x, F(-30.0)), pairwise, np.exp) * m.any(-1, keepdims=True)),
    ("cross_entropy", "shifted", "no max", lambda x, y: np.log(pairwise(np.exp(x)))[:, 0]
     - np.take_along_axis(x, y[:, None], -1)[:, 0]),
    ("cross_entropy", "normal", "label off by one", lambda x, y: honest(
        "cross_entropy", (x, (y + 1) % x.shape[-1]), pairwise, exp)[0]),
    ("rmsnorm", "tiny", "no epsilon", no_epsilon),
    ("rmsnorm", "denormals", "no epsilon", no_epsilon),
    ("rmsnorm", "denormals", "denormals flushed", lambda x, w: rmsnorm(
        np.where(np.abs(x) < 2.0**-126, F(0.0), x), w, lambda v: pairwise(v * v))),
    ("rmsnorm", "normal", "bf16 product", lambda x, w: bf16(rmsnorm(
        x, w, lambda v: pairwise(v * v)))),
    ("rmsnorm", "normal", "fp16 product", lambda x, w: f16(rmsnorm(
        x, w, lambda v: pairwise(v * v)))),
    ("rmsnorm", "normal", "last one left out", lambda x, w: rmsnorm(
        x, w, lambda v: skip_last(v * v))),
    ("rmsnorm", "normal", "weight left out", lambda x, w: rmsnorm(
        x, np.ones_like(w), lambda v: pairwise(v * v))),
    ("layernorm", "shifted", "naive variance", naive_layernorm),
    ("layernorm", "tiny", "no epsilon", lambda x, w, b: (x - x.mean(-1, keepdims=True))
     / x.std(-1, keepdims=True) * w + b),
    ("layernorm", "normal", "unbiased variance", lambda x, w, b: (x - x.mean(-1, keepdims=True))
     / np.sqrt(x.var(-1, keepdims=True, ddof=1) + F(1e-5)) * w + b),
    ("l2_normalize", "denormals", "no floor", lambda x: x / np.sqrt(pairwise(x * x))),
    ("l2_normalize", "normal", "fast reciprocal root", lambda x: x * f16(
        F(1.0) / np.sqrt(pairwise(x * x)))),
    ("bias_gelu", "normal", "erf instead of tanh", lambda x, b: F(0.5) * (x + b) * (
        F(1.0) + erf((x + b) * F(0.70710678)))),
    ("bias_gelu", "normal", "sigmoid(1.702 h)", lambda x, b: (x + b) / (
        F(1.0) + np.exp(F(-1.702) * (x + b)))),
    ("bias_gelu", "normal", "bias left out", lambda x, b: gelu_tanh(x, exp)),
    ("geglu", "normal", "tanh instead of erf", lambda g, u: gelu_tanh(g, exp) * u),
    ("geglu", "normal", "gate and up exchanged", lambda g, u: honest(
        "geglu", (u, g), pairwise, exp)[0]),
    ("swiglu", "normal", "fp16 sigmoid", lambda g, u: g * f16(F(1.0) / (F(1.0) + exp(-g))) * u),
    ("swiglu", "normal", "exp of degree 4", lambda g, u: g / (F(1.0) + crude_exp(-g)) * u),
    ("rope", "normal", "interleaved pairs", lambda q, c, s: interleaved(q, c, s)),
    ("rope", "normal", "fp16 product", lambda q, c, s: honest(
        "rope", (f16(q), c, s), pairwise, exp)[0]),
    ("row_sum", "normal", "last one left out", lambda x: skip_last(x)[:, 0]),
    ("row_sum", "normal", "fp16 inputs", lambda x: pairwise(f16(x))[:, 0]),
    ("cumsum", "normal", "fp16 carry", lambda x: np.add.accumulate(f16(x), axis=-1)),
    ("cumsum", "normal", "exclusive", lambda x: np.add.accumulate(x, axis=-1) - x),
]  # fmt: skip


def crude_exp(x: Array) -> Array:
    n = np.rint(x * F(1.44269504))
    r = x - n * F(0.69314718)
    p = F(1.0) + r * (F(1.0) + r * (F(0.5) + r * (F(1.0 / 6.0) + r * F(1.0 / 24.0))))
    return np.ldexp(p, n.astype(np.int32)).astype(F)


def interleaved(q: Array, cos: Array, sin: Array) -> Array:
    out = np.empty_like(q)
    a, b, c, s = q[..., ::2], q[..., 1::2], cos[:, None], sin[:, None]
    out[..., ::2], out[..., 1::2] = a * c - b * s, b * c + a * s
    return out


@pytest.mark.parametrize(
    ("op", "distribution", "wrong", "kernel"),
    DISHONEST,
    ids=[f"{op}-{distribution}-{wrong}" for op, distribution, wrong, _ in DISHONEST],
)
def test_dishonest_kernels_fail(op: str, distribution: str, wrong: str, kernel: Callable):
    def quiet(*v: Array) -> list[Array]:
        with np.errstate(all="ignore"):
            return [kernel(*v).astype(F)]

    for rows, cols in ((61, 257), (48, 1024)):
        found = judge(op, axes_of(op, rows, cols), distribution, 5, quiet)
        assert not found.is_within, (wrong, rows, cols, found)
