"""Kernels that use more memory than they may, in every way that is not a wrong address."""

import pytest

from tests.judging import Courtroom, cpp, py


@pytest.fixture(scope="module")
def court(tmp_path_factory):
    with Courtroom(tmp_path_factory.mktemp("court")) as court:
        yield court


HEAD = (
    "#include <cstdint>\n#include <cstdlib>\n#include <cstring>\n#include <thread>\n"
    "#include <vector>\n"
    'extern "C" void launch(const float* x, float* out, int64_t rows, int64_t cols) { '
)
GREEDY = {
    "vectors": "for (;;) new std::vector<char>(1 << 26, 1);",
    "one that is too large": "std::vector<char> all(rows << 40, 1); out[0] = all[cols];",
    "small pieces": "for (;;) *new volatile int64_t[2] = 1;",
    "in a thread": "std::thread([] { for (;;) new std::vector<char>(1 << 26, 1); }).join();",
    "in a team": "\n#pragma omp parallel num_threads(3)\n"
    "for (;;) new std::vector<char>(1 << 22, 1);",
    "by the C library": "for (;;) memset(malloc(1 << 24), 1, 1 << 24);",
}


@pytest.mark.parametrize("name", GREEDY)
def test_a_kernel_that_eats_memory_is_told_so(court, name):
    verdict = court.screen(cpp(f"{HEAD}{GREEDY[name]} }}"))
    assert verdict.check == "out-of-memory", verdict


def test_a_python_kernel_that_eats_memory_is_told_so(court):
    text = "import numpy as np\nkept = []\n"
    text += "def launch(x, out, rows, cols):\n    while True: kept.append(np.ones(1 << 24))\n"
    assert court.screen(py(text)).check == "out-of-memory"


def test_a_kernel_that_dies_of_something_else_is_not(court):
    assert court.screen(cpp(HEAD + "abort(); }")).check == "crashed"
    assert court.screen(cpp(HEAD + "*(volatile int*)rows = 1; }")).check == "crashed"
