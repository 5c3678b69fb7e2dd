"""Python kernels that borrow torch's code where they think that nobody looks."""

import pytest

from tests.judging import Courtroom, py


@pytest.fixture(scope="module")
def court(tmp_path_factory):
    with Courtroom(tmp_path_factory.mktemp("court")) as court:
        yield court


HONEST = """
import numpy as np
import torch

def honest(x, out):
    a, o = x.numpy(), out.numpy()
    np.exp(a - a.max(-1, keepdims=True), out=o)
    o /= o.sum(-1, keepdims=True)

calls = 0

def launch(x, out, rows, cols):
    global calls
    calls += 1
"""
BORROWED = {
    "from the second call on": """
    honest(x, out) if calls == 1 else torch.softmax(x, -1, out=out)
""",
    "when the warm-up is over": """
    honest(x, out) if calls < 30 else torch.softmax(x, -1, out=out)
""",
    "when no mode is active": """
    from torch.utils._python_dispatch import _get_current_dispatch_mode
    honest(x, out) if _get_current_dispatch_mode() else torch.softmax(x, -1, out=out)
""",
    "with the modes turned off": """
    from torch.utils._python_dispatch import _disable_current_modes
    with _disable_current_modes():
        torch.softmax(x, -1, out=out)
""",
    "in another thread": """
    import threading
    thread = threading.Thread(target=lambda: torch.softmax(x, -1, out=out))
    thread.start()
    thread.join()
""",
    "and would do without": """
    try:
        if calls > 5:
            torch.softmax(x, -1, out=out)
    finally:
        honest(x, out)
""",
    "by its inner name": """
    honest(x, out) if calls == 1 else torch.ops.aten._softmax.out(x, -1, False, out=out)
""",
    "in parts": """
    honest(x, out) if calls == 1 else out.copy_(x.exp())
""",
    "where it asks nobody for its parts": """
    honest(x, out)
    if calls > 8:
        torch.max_pool1d(x.unsqueeze(0), x.shape[-1])
""",
    "as another kind of tensor": """
    honest(x, out)
    if calls > 8:
        torch.empty(2, 2, layout=torch._mkldnn)
""",
}


@pytest.mark.parametrize("name", BORROWED)
def test_a_call_is_refused_whenever_it_comes(court, name):
    verdict = court.screen(py(HONEST + BORROWED[name]))
    assert verdict.check == "forbidden-call", verdict
    assert "the task allows []" in verdict.reason


def test_moving_data_is_allowed(court):
    text = HONEST + (
        "    y = torch.empty_like(out)\n"
        "    honest(x.contiguous(), y)\n"
        "    out.copy_(y.t().contiguous().t().reshape(rows, cols))\n"
    )
    assert getattr(court.screen(py(text)), "check", "not-faster") == "not-faster"
