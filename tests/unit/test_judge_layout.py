"""Where buffers lie: apart, guarded, aligned as asked."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forge.judge.layout import GUARD_BYTES, ITEM_BYTES, PAGE, Layout, Region, burst_calls, guards
from forge.judge.layout import _lay as lay
from forge.tasks.model import TensorSpec


class TwoTensors:
    """What ``plan`` asks of a task."""

    @staticmethod
    def shape(spec, axes):
        return tuple(axes[name] for name in spec.shape)


SPECS = [
    TensorSpec(shape=("rows", "cols"), dtype="float32", row_stride="stride"),
    TensorSpec(shape=("rows",), dtype="int64"),
]


@settings(max_examples=200)
@given(
    rows=st.integers(1, 40),
    cols=st.integers(1, 40),
    pad=st.integers(0, 9),
    offset=st.integers(0, 5),
    calls=st.integers(1, 5),
)
def test_buffers_are_apart_guarded_and_off_their_alignment(rows, cols, pad, offset, calls):
    axes = {"rows": rows, "cols": cols, "stride": cols + pad}
    layout = lay(SPECS, TwoTensors, axes, (offset, calls))
    regions = [region for call in layout.calls for region in call]
    assert len(regions) == 2 * calls
    assert layout.size % PAGE == 0
    end = 0
    for region in regions:
        assert region.start - end >= GUARD_BYTES or end == 0
        assert region.start % 64 == offset * ITEM_BYTES[region.dtype]
        end = region.start + region.span_bytes
    assert end + GUARD_BYTES <= layout.size + PAGE
    strided = regions[0]
    assert strided.strides == ((cols + pad, 1) if rows else (1,))
    assert strided.span_bytes == ((rows - 1) * (cols + pad) + cols) * 4


@settings(max_examples=100)
@given(starts=st.lists(st.integers(1, 50), min_size=1, max_size=4), offset=st.integers(0, 3))
def test_guards_cover_whatever_no_buffer_covers_to_the_word(starts, offset):
    regions, at = [], GUARD_BYTES
    for count in starts:
        start = -(-at // 64) * 64 + 4 * offset
        regions.append(Region(start=start, shape=(count,), strides=(1,), dtype="float32"))
        at = start + 4 * count + GUARD_BYTES
    layout = Layout(calls=(tuple(regions),), size=-(-at // PAGE) * PAGE)
    covered = set()
    for start, end in guards(layout):
        covered |= set(range(start, end))
    for region in regions:
        covered |= set(range(region.start, region.start + region.span_bytes))
    assert covered == set(range(layout.size))


@pytest.mark.parametrize(
    ("moved", "calls"), [(1, 256), (1 << 16, 16), (1 << 20, 4), (1 << 30, 4), (0, 256)]
)
def test_a_burst_has_4_to_256_calls_by_its_bytes_alone(moved, calls):
    assert burst_calls(moved, 1 << 20) == calls
