"""A real judge on a small softmax, for tests: small sizes, everything else as in a night."""

import re
from pathlib import Path

from forge.host import probe_environment
from forge.judge.judge import CpuJudge
from forge.tasks.load import load_task
from forge.types import KernelSource

CATALOG = Path(__file__).parents[1] / "baselines" / "catalog"
NOISE = {"x": 0.02, "tune-0": 0.02, "tune-1": 0.02}
WORKLOADS = """
[[workloads]]
axes = { rows = 64, cols = 1024 }
protected = true

[[workloads]]
axes = { rows = 7, cols = 129 }

[holdouts]
ranges = { rows = [1, 40], cols = [1, 300] }
max_elements = 10_000
offsets = [0, 1, 3]
"""
HONEST = """
#include <cmath>
#include <cstdint>

extern "C" void launch(const float* x, float* out, int64_t rows, int64_t cols) {
  for (int64_t r = 0; r < rows; ++r) {
    const float* in = x + r * cols;
    float* o = out + r * cols;
    float top = -INFINITY;
    for (int64_t c = 0; c < cols; ++c) top = in[c] > top ? in[c] : top;
    float sum = 0;
    for (int64_t c = 0; c < cols; ++c) sum += o[c] = std::exp(in[c] - top);
    for (int64_t c = 0; c < cols; ++c) o[c] /= sum;
  }
}
"""


def small_softmax(folder):
    """Write the catalog's softmax with small workloads into ``folder`` and load it."""
    source = CATALOG / "softmax"
    text = (source / "task.toml").read_text()
    start, end = text.index("[[workloads]]"), text.index("[numeric]")
    distributions = re.search(r"^distributions = \[.*?\]", text, re.DOTALL | re.MULTILINE).group()
    folder.mkdir()
    (folder / "task.toml").write_text(
        f"{text[:start]}{WORKLOADS.lstrip()}{distributions}\n\n{text[end:]}"
    )
    (folder / "reference.py").write_text((source / "reference.py").read_text())
    return load_task(folder)


def cpp(text):
    return KernelSource(files={"kernel.cpp": text})


def py(text):
    return KernelSource(files={"kernel.py": text})


def reference(task):
    return KernelSource(files={"reference.py": task.reference_source})


class Courtroom:
    """A judge with its task and the eager baseline built."""

    def __init__(self, folder):
        self.task = small_softmax(folder / "softmax")
        self.judge = CpuJudge(cache=folder / "cache", environment=probe_environment())

    def __enter__(self):
        self.judge.__enter__()
        self.baseline = self.judge.build(reference(self.task))
        return self

    def __exit__(self, *error):
        self.judge.__exit__(*error)

    def screen(self, source):
        """Build and screen; a kernel that does not build is its verdict."""
        built = self.judge.build(source)
        if hasattr(built, "check"):
            return built
        return self.judge.screen(self.task, built, self.baseline, noise=NOISE, rounds=1).verdict

    def by_hand(self, source, baseline=None):
        built = self.judge.build(source)
        against = self.judge.build(baseline) if baseline else self.baseline
        return self.judge.by_hand(self.task, built, against, noise=NOISE, secret=bytes(32))
