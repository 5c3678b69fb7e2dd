"""Small pure parts of the judge: the system-call filter, the compiler's first error, cores."""

import struct

import pytest

from forge.judge import seccomp
from forge.judge.builder import first_error, reason
from forge.judge.processes import Cores

ALLOW, ERRNO, KILL = 0x7FFF0000, 0x00050000, 0x80000000


def run(code, number, arch=0xC000003E, argument=0, second=0):
    """Interpret the few instructions the filter uses."""
    words = {0: number, 4: arch, 16: argument, 24: second}
    lines = [struct.unpack_from("HBBI", code, i) for i in range(0, len(code), 8)]
    at = value = 0
    while True:
        op, yes, no, operand = lines[at]
        at += 1
        if op == 0x06:
            return operand
        if op == 0x20:
            value = words[operand]
        else:
            holds = {0x15: value == operand, 0x45: value & operand, 0x35: value >= operand}[op]
            at += yes if holds else no


@pytest.mark.parametrize("allow_processes", [True, False])
def test_reading_writing_and_threads_are_allowed(allow_processes):
    code = seccomp.program("x86_64", allow_processes=allow_processes)
    assert run(code, 0) == run(code, 1) == ALLOW
    assert run(code, 56, argument=0x10000) == ALLOW


@pytest.mark.parametrize("name", ["socket", "ptrace", "mount", "unshare", "memfd_create"])
def test_what_reaches_out_is_refused_to_everybody(name):
    number = seccomp.number_of("x86_64", name)
    for allow_processes in (True, False):
        code = seccomp.program("x86_64", allow_processes=allow_processes)
        assert run(code, number) & 0xFFFF0000 == ERRNO


@pytest.mark.parametrize("name", sorted(seccomp.PROCESSES))
def test_only_a_builder_starts_programs(name):
    number = seccomp.number_of("x86_64", name)
    arm = seccomp.program("x86_64", allow_processes=False)
    builder = seccomp.program("x86_64", allow_processes=True)
    assert run(arm, number) & 0xFFFF0000 == ERRNO
    assert run(builder, number) == ALLOW


def test_clone3_says_that_it_does_not_exist_so_that_clone_is_used():
    code = seccomp.program("x86_64", allow_processes=False)
    assert run(code, 435) == ERRNO | 38


@pytest.mark.parametrize("allow_processes", [True, False])
def test_a_process_signals_itself_alone(allow_processes):
    code = seccomp.program("x86_64", allow_processes=allow_processes, own=7)
    kill, tgkill, fcntl = (seccomp.number_of("x86_64", n) for n in ("kill", "tgkill", "fcntl"))
    assert run(code, kill, argument=7) == run(code, tgkill, argument=7) == ALLOW
    for other in (0, 1, 8, 0xFFFFFFFF):
        assert run(code, kill, argument=other) == run(code, tgkill, argument=other) == ERRNO | 1
    assert run(code, fcntl, second=3) == ALLOW
    assert {run(code, fcntl, second=command) for command in (8, 10, 15)} == {ERRNO | 1}


def test_nobody_makes_a_namespace_by_cloning():
    for allow_processes in (True, False):
        code = seccomp.program("x86_64", allow_processes=allow_processes)
        assert run(code, 56, argument=0x10000000 | 17) == ERRNO | 1


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_no_call_is_named_twice(machine):
    names = [*seccomp._REFUSED, *seccomp._RULES, "clone"]
    numbers = [n for n in (seccomp.number_of(machine, name) for name in names) if n >= 0]
    assert len(set(numbers)) == len(numbers)


def test_another_architecture_is_killed():
    code = seccomp.program("x86_64", allow_processes=False)
    assert run(code, 0, arch=0x40000003) == KILL
    assert run(code, 0x40000000 | 1) == ERRNO | 38


@pytest.mark.parametrize(
    ("stderr", "line"),
    [
        (
            "kernel.cpp: In 'void launch()':\nkernel.cpp:3:5: error: 'foo' was not declared"
            "\n   3 | foo();\nkernel.cpp:9:1: error: another\n",
            "kernel.cpp:3:5: error: 'foo' was not declared",
        ),
        ("g++: fatal error: Killed signal\n", "g++: fatal error: Killed signal"),
        ("/tmp/x.o: undefined reference to `foo()'\n", "/tmp/x.o: undefined reference to `foo()'"),
        ("", "no message"),
    ],
)
def test_the_compilers_first_error_is_told(stderr, line):
    assert first_error(stderr) == line


@pytest.mark.parametrize(
    ("said", "number", "why"),
    [
        ("g++: fatal error: Killed signal terminated program cc1plus\n", 0, "more than 9 s"),
        ("cc1plus: out of memory allocating 1 bytes after a total of 2 bytes", 0, "2 GiB of mem"),
        ("as: kernel.o: File size limit exceeded", 0, "32 MiB for what it writes"),
        ("", 9, "more than 9 s"),
        ("kernel.cpp:1:2: error: #error out of memory", 0, "error: #error out of memory"),
    ],
)
def test_a_limit_that_the_compiler_met_is_told(said, number, why):
    assert why in reason(said, 9, number)
    assert "\n" not in reason(said, 9, number)


def test_the_first_core_keeps_the_clock():
    assert Cores.share_out([3, 1, 2]) == Cores(coordinator=1, arms=(2, 3))
    assert Cores.share_out([5]) == Cores(coordinator=5, arms=(5,))
    assert Cores.share_out([3, 1, 2]).all == (1, 2, 3)
