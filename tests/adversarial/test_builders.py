"""Sources that attack the compiler, or the judge through it: each is rejected in one sentence."""

import time

import pytest

from forge.types import KernelSource
from forge.verdict import Rejected
from tests.judging import HONEST, Courtroom, cpp

LIMIT_S = 5


@pytest.fixture(scope="module")
def court(tmp_path_factory):
    with Courtroom(tmp_path_factory.mktemp("court")) as court:
        yield court


DOUBLED = "".join(f"#define A{n + 1} A{n} A{n}\n" for n in range(22))
ATTACKS = {
    "includes a file of the host": ('#include "/etc/passwd"\n', "No such file"),
    "includes what the judge wrote": (f'#include "{__file__}"\n', "No such file"),
    "assembles a file of the host": ('asm(".incbin \\"/etc/passwd\\"");\n', "file not found"),
    "includes what never ends": ('#include "/dev/zero"\n', "No such file"),
    "includes what never ends and is there": (
        '#include "/dev/urandom"\n',
        "the compiler needs more than",  # memory, or time on a slow machine
    ),
    "instantiates for ever": (
        "template <int N, long M> struct A {\n"
        "  static constexpr long v = A<N - 1, 2 * M>::v + A<N - 1, 2 * M + 1>::v; };\n"
        "template <long M> struct A<0, M> { static constexpr long v = M; };\n"
        "long v = A<28, 1>::v;\n",
        "the compiler needs more than",
    ),
    "recurses without end": (
        "template <int N> struct A { static constexpr int v = A<N + 1>::v; };\nint v = A<0>::v;\n",
        "template instantiation depth",
    ),
    "writes gigabytes": (
        "char big[1ll << 31] = {1};\n",
        "the compiler needs more than 32 MiB for what it writes",
    ),
    "says gigabytes": (
        '#define A0 _Pragma("GCC warning \\"' + "x" * 200 + '\\"")\n' + DOUBLED + "A22\n",
        "the compiler needs more than 32 MiB for what it writes",
    ),
    "is wrong everywhere": ("#define A0 foo();\n" + DOUBLED + "void f() { A18 }\n", "error: "),
}


@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_on_the_compiler_ends_in_a_sentence(court, name, monkeypatch):
    monkeypatch.setattr("forge.judge.build.BUILD_S", LIMIT_S)
    text, reason = ATTACKS[name]
    started = time.monotonic()
    built = court.judge.build(cpp(text + HONEST))
    assert isinstance(built, Rejected), built
    assert built.check == "builds"
    assert reason in built.reason
    assert "\n" not in built.reason
    assert len(built.reason) <= 500
    assert time.monotonic() - started < 3 * LIMIT_S


@pytest.mark.parametrize(
    "pragma",
    [
        '#pragma GCC optimize("-fplugin=/scratch/x.so")',
        '#pragma GCC optimize("-wrapper /bin/true")',
        '#pragma GCC target("-B/scratch")',
    ],
)
def test_a_pragma_gives_the_compiler_no_program_to_run(court, pragma):
    built = court.judge.build(cpp(f"{pragma}\n{HONEST}"))
    assert not isinstance(built, Rejected) or built.check == "builds"


@pytest.mark.parametrize("name", ["../x.h", "/x.h", "a//x.h", "a/../../x.h", "a\nb.h"])
def test_a_file_stays_in_its_folder(court, name):
    built = court.judge.build(KernelSource(files={"kernel.cpp": HONEST, name: ""}))
    assert isinstance(built, Rejected)
    assert (built.check, repr(name) in built.reason) == ("builds", True)


def test_a_kernel_of_several_files_is_built(court):
    files = {"kernel.cpp": '#include "parts/top.h"\n' + HONEST, "parts/top.h": "// nothing\n"}
    assert not isinstance(court.judge.build(KernelSource(files=files)), Rejected)
