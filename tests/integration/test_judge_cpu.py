"""The CPU judge on real processes: what it accepts, and what it says of what it does not."""

import os
import time
from pathlib import Path

import pytest

from forge.errors import HarnessFault
from forge.host import probe_environment
from forge.judge.evidence import Evidence
from forge.judge.judge import CpuJudge
from forge.tasks.load import load_task
from forge.types import KernelSource
from forge.verdict import Accepted, Inconclusive, Rejected
from tests.judging import CATALOG, HONEST, NOISE, Courtroom, cpp, py, reference


@pytest.fixture(scope="module")
def court(tmp_path_factory):
    with Courtroom(tmp_path_factory.mktemp("court")) as court:
        yield court


HEAD = '#include <cstdint>\nextern "C" void launch(const float* x, float* out, int64_t, int64_t)'
FAILURES = {
    "does not compile": (HEAD + " { foo(); }", "builds", r"kernel\.cpp:2:\d+: error: .*foo"),
    "lacks launch": ("void start() {}", "has-launch", "no `extern"),
    "crashes": (HEAD + " { *(volatile int*)8 = 1; }", "crashed", "SIGSEGV"),
    "exits 0 early": (
        "#include <unistd.h>\n" + HEAD + " { _exit(0); }",
        "exited-early",
        "exited with 0",
    ),
    "eats memory": (
        "#include <vector>\n" + HEAD + " { for (;;) new std::vector<char>(1 << 26, 1); }",
        "out-of-memory",
        "no more memory to be had",
    ),
    "prints garbage": (
        "#include <cstdio>\n" + HEAD + ' { for (int i = 0; i < 9999; ++i) puts("PASS 1.0"); }',
        "outputs-unwritten",
        "expected",
    ),
    "writes nothing": (HEAD + " {}", "outputs-unwritten", "is nan, expected"),
    "writes an input": (HEAD + " { const_cast<float*>(x)[0] = 1; }", "crashed", "SIGSEGV"),
    "writes past the end": (
        HONEST.replace("for (int64_t r = 0;", "out[rows * cols] = 1;\n  for (int64_t r = 0;"),
        "canary",
        "beside the outputs",
    ),
    "skips the last element": (
        HONEST.replace("o[c] /= sum;", "if (c + 1 < cols) o[c] /= sum;"),
        "wrong-values",
        r"element \[\d+, 128\]",
    ),
    "does not subtract the maximum": (
        HONEST.replace("in[c] - top", "in[c]"),
        None,
        "",
    ),
}


@pytest.mark.parametrize("name", [n for n in FAILURES if FAILURES[n][1]])
def test_a_failing_kernel_is_rejected_by_its_check(court, name):
    text, check, reason = FAILURES[name]
    verdict = court.screen(cpp(text))
    assert isinstance(verdict, Rejected)
    assert verdict.check == check
    assert __import__("re").search(reason, verdict.reason), verdict.reason


def test_what_benign_draws_hide_is_found_on_holdouts(court):
    text = FAILURES["does not subtract the maximum"][0]
    judged = court.by_hand(cpp(text))
    assert isinstance(judged.verdict, Rejected)
    assert judged.verdict.check in {"wrong-nan", "wrong-values"}
    assert judged.evidence.holdouts == "failed"


def test_a_python_kernel_that_raises_says_where(court):
    verdict = court.screen(py("def launch(x, out, rows, cols):\n    raise ValueError('no')\n"))
    assert verdict.check == "python-error"
    assert "ValueError: no" in verdict.reason


def test_a_python_kernel_may_call_only_what_the_task_allows(court):
    text = "import torch\ndef launch(x, out, rows, cols):\n    torch.softmax(x, -1, out=out)\n"
    verdict = court.screen(py(text))
    assert (verdict.check, "torch.softmax" in verdict.reason) == ("forbidden-call", True)


def test_a_python_kernel_of_its_own_is_judged_by_its_speed_alone(court):
    text = (
        "import numpy as np\n"
        "def launch(x, out, rows, cols):\n"
        "    a, o = x.numpy(), out.numpy()\n"
        "    np.exp(a - a.max(-1, keepdims=True), out=o)\n"
        "    o /= o.sum(-1, keepdims=True)\n"
    )
    verdict = court.screen(py(text))
    assert isinstance(verdict, Inconclusive) or verdict.check == "not-faster"


def test_a_kernel_that_is_merely_not_better_is_rejected_by_not_faster(court):
    judged = court.by_hand(cpp(HONEST), baseline=cpp(HONEST))
    assert isinstance(judged.verdict, (Rejected, Inconclusive))
    if isinstance(judged.verdict, Rejected):
        assert judged.verdict.check == "not-faster"
    assert judged.evidence.findings == ()


SLOW = HONEST.replace(
    "for (int64_t r = 0;",
    "const int64_t idle = 20000 + rows * cols * 4;\n"
    "  for (volatile int64_t i = 0; i < idle; i = i + 1) {}\n  for (int64_t r = 0;",
)


def test_a_clear_win_is_accepted_and_reconfirmed(court):
    judge, task = court.judge, court.task
    fast, slow = judge.build(cpp(HONEST)), judge.build(cpp(SLOW))
    rounds = []
    judged = judge.confirm(
        task,
        fast,
        slow,
        noise=NOISE,
        alpha=0.025,
        secret=bytes(32),
        deadline=None,
        on_round=lambda evidence, _: rounds.append(len(evidence.rounds)),
    )
    assert isinstance(judged.verdict, Accepted), judged.verdict
    assert judged.verdict.speedup.lower > 1.5
    assert judged.evidence.holdouts == "passed"
    assert rounds == list(range(1, len(judged.evidence.rounds) + 1))
    again = judge.reconfirm(
        task, fast, slow, court.baseline, noise=NOISE, secret=bytes(32), rounds=3
    )
    assert isinstance(again.verdict, Accepted)
    assert len(again.evidence.rounds) == 3
    arms = {arm for r in again.evidence.rounds for s in r.samples for arm in s.burst_ns}
    assert arms == {"baseline", "candidate", "origin"}
    text = judged.evidence.model_dump_json()
    assert Evidence.model_validate_json(text) == judged.evidence


def test_a_loss_is_not_reproduced(court):
    judge = court.judge
    judged = judge.reconfirm(
        court.task,
        judge.build(cpp(SLOW)),
        judge.build(cpp(HONEST)),
        judge.build(cpp(HONEST)),
        noise=NOISE,
        secret=bytes(32),
        rounds=5,
    )
    assert judged.verdict.check == "not-reproduced"


def test_a_hung_kernel_is_killed(court, monkeypatch):
    monkeypatch.setattr("forge.judge.arms.READY_S", 0.5)
    verdict = court.screen(cpp(HEAD + " { for (volatile int i = 1; i;) {} }"))
    assert (verdict.check, "0 s while warming up" in verdict.reason) == ("hung", True)


def test_every_second_sample_of_a_workload_takes_the_reverse_order(court):
    court.judge.bench.forget()  # an odd number of earlier samples leaves an order owed
    judged = court.judge.calibrate(court.task, court.baseline, rounds=4)
    orders = {spec.id: [] for spec in judged.evidence.workloads}
    for item in judged.evidence.rounds:
        for sample in item.samples:
            orders[sample.workload].append(sample.order)
    for first, second, third, fourth in orders.values():
        assert second == first[::-1]
        assert fourth == third[::-1]


def test_a_screen_without_a_clear_lead_goes_on(court):
    honest = court.judge.build(cpp(HONEST))
    twin = court.judge.build(cpp(HONEST + "// a twin\n"))
    judged = court.judge.screen(court.task, twin, honest, noise={**NOISE, "x": 1.0})
    verdict, count = judged.verdict, len(judged.evidence.rounds)
    # At this noise no lead is clear: it ends as soon as the mean is below the bar, or at 8.
    assert count == 8 if isinstance(verdict, Inconclusive) else verdict.check == "not-faster"
    clear = court.judge.screen(court.task, honest, court.baseline, noise={**NOISE, "x": 1e-6})
    assert len(clear.evidence.rounds) == 2 or isinstance(clear.verdict, Rejected)


def test_nothing_is_left_behind(court):
    before = len(list(Path("/proc/self/fd").iterdir()))
    children = _descendants()
    for text in (HONEST, HEAD + " { *(volatile int*)8 = 1; }", "void start() {}"):
        court.screen(cpp(text))
    assert _descendants() == children
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def _descendants():
    me, found = os.getpid(), set()
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parents[int(entry.name)] = int(
                    (entry / "stat").read_text().rpartition(")")[2].split()[1]
                )
            except OSError:
                continue
    for pid in parents:
        at = pid
        while at in parents and at != me:
            at = parents[at]
        if at == me and pid != me:
            found.add(pid)
    return found


def test_a_rival_and_the_roof_are_timed(court):
    judge = court.judge
    kernel = judge.build(cpp(HONEST))
    started = time.monotonic()
    rivals = judge.time_rivals(court.task, kernel, ["eager"])
    assert rivals["eager"].lower <= rivals["eager"].point <= rivals["eager"].upper
    roof = judge.measure_roof()
    assert 1e9 < roof.bytes_per_s < 1e12
    assert roof.flops_per_s > 1e9
    assert 0 < judge.roof_share(court.task, kernel, roof) < 1.2
    assert time.monotonic() - started < 60


def test_the_reference_is_a_kernel_too(court):
    judged = court.judge.calibrate(court.task, court.judge.build(reference(court.task)), rounds=3)
    assert set(judged.noise) == {"x", "tune-0", "tune-1"}
    assert all(value > 0 for value in judged.noise.values())


# Each call keeps as much again as it returns, so that every burst needs pages of its own.
HOARDER = """
import torch

kept = []


def run(x):
    kept.append(torch.ones(1 << 20))
    return torch.softmax(x, -1)
"""


def test_a_reference_that_takes_new_memory_while_the_clock_runs_is_not_timed(court):
    hoarder = KernelSource(files={"reference.py": HOARDER})
    with pytest.raises(HarnessFault, match="new pages were taken while the clock ran"):
        court.judge.calibrate(court.task, court.judge.build(hoarder), rounds=1)


@pytest.mark.parametrize("start", range(2))
def test_wherever_its_heap_lies_a_reference_finds_its_memory_ready(start, tmp_path):
    # Each judge draws the addresses of its processes anew; the guard above raises if pages are
    # taken. Eight results of 4 MiB: some layouts sent five of them to fresh pages.
    task = load_task(CATALOG / "cumsum")
    with CpuJudge(cache=tmp_path, environment=probe_environment()) as judge:
        judged = judge.calibrate(task, judge.build(reference(task)), rounds=1)
    assert len(judged.evidence.rounds) == 1
