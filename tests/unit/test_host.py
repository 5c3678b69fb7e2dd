"""Naming machines: every value comes from another machine's files, none from this one."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forge.errors import UsageError
from forge.host import (
    CPU_BUILD_FLAGS,
    Environment,
    cpu_model,
    cpu_target,
    parse_cpuinfo,
    parse_slot,
    resolve_target,
    vector_isa,
)

XEON = """processor\t: 0
vendor_id\t: GenuineIntel
cpu family\t: 6
model\t\t: 143
model name\t: Intel(R) Xeon(R) Platinum 8480+
flags\t\t: fpu sse2 avx avx2 avx512f amx_tile

processor\t: 1
model\t\t: 85
flags\t\t: fpu
"""
GRAVITON = """processor\t: 0
BogoMIPS\t: 2100.00
Features\t: fp asimd sve
CPU implementer\t: 0x41
CPU part\t: 0xd40
"""


def intel(model: int, flags: str = "") -> dict[str, str]:
    return {
        "vendor_id": "GenuineIntel",
        "cpu family": "6",
        "model": str(model),
        "flags": flags,
        "model name": "Intel(R) Xeon(R) Processor @ 2.60GHz",
    }


def amd(family: int, model: int) -> dict[str, str]:
    return {"vendor_id": "AuthenticAMD", "cpu family": str(family), "model": str(model)}


def environment(**changes: str | int) -> Environment:
    fields: dict[str, str | int] = {
        "target": "sapphirerapids-avx512-1t",
        "model": "sapphirerapids",
        "model_name": "Intel(R) Xeon(R) Processor",
        "isa": "avx512",
        "cores": 2,
        "arm_threads": 1,
        "llc_bytes": 2**20,
        "compiler": "g++ 12.2.0",
        "flags": " ".join(CPU_BUILD_FLAGS),
        "torch": "2.13.0",
        "python": "3.11.7",
        "kernel": "6.1.0",
        "libc": "glibc-2.36",
    }
    return Environment.identified(**{**fields, **changes})


def test_the_first_processor_speaks_for_all():
    facts = parse_cpuinfo(XEON)
    assert facts["model"] == "143"
    assert cpu_model(facts) == "sapphirerapids"
    assert vector_isa(facts["flags"]) == "avx512"


def test_an_arm_processor_is_known_by_its_part():
    facts = parse_cpuinfo(GRAVITON)
    assert cpu_model(facts) == "neoverse-v1"
    assert vector_isa(facts["features"]) == "sve"


@pytest.mark.parametrize(
    ("facts", "model"),
    [
        (intel(85), "skylake-avx512"),
        (intel(167, "avx512f"), "rocketlake"),
        (intel(207, "amx_tile"), "emeraldrapids"),
        (intel(173, "amx_tile amx_fp16"), "graniterapids"),
        (amd(23, 49), "zen2"),
        (amd(25, 33), "zen3"),
        (amd(25, 97), "zen4"),
        (amd(25, 17), "zen4"),
        (amd(26, 2), "zen5"),
    ],
)
def test_a_known_number_gives_the_compilers_name(facts: dict[str, str], model: str):
    assert cpu_model(facts) == model


def test_a_virtual_number_gives_way_to_tile_registers():
    assert cpu_model(intel(167, "avx512f amx_tile avx512_fp16")) == "sapphirerapids"
    assert cpu_model(intel(167, "avx512f amx_tile amx_fp16")) == "graniterapids"


def test_an_unknown_processor_is_named_by_its_own_words():
    assert cpu_model(intel(9999)) == "intel-xeon"
    assert cpu_model({"model name": "Hygon C86 7285 32-core Processor"}) == "hygon-c86-7285"


@pytest.mark.parametrize(
    ("flags", "isa"),
    [("sse2", "sse2"), ("sse2 avx2", "avx2"), ("asimd", "neon"), ("", "scalar")],
)
def test_the_widest_extension_names_the_isa(flags: str, isa: str):
    assert vector_isa(flags) == isa


@given(st.text(min_size=1), st.text(max_size=8), st.integers(1, 512))
def test_a_target_id_is_safe_in_a_folder_and_a_ref(model: str, isa: str, threads: int):
    target = cpu_target(model, isa, threads)
    assert re.fullmatch(r"[a-z0-9-]*-[a-z0-9-]*-\d+t", target)
    assert target.endswith(f"-{threads}t")


def test_an_arm_without_a_thread_is_refused():
    with pytest.raises(ValueError, match="got 0"):
        cpu_target("zen4", "avx512", 0)


def test_an_environment_is_known_by_every_field():
    here = environment()
    assert here == environment()
    assert re.fullmatch(r"[0-9a-f]{12}", here.id)
    assert environment(compiler="g++ 13").id != here.id
    assert environment(cores=3).id != here.id


def test_cpu_is_this_machine_and_its_own_id_too():
    here = environment()
    assert resolve_target("cpu", here) == here.target
    assert resolve_target(here.target, here) == here.target


def test_a_target_of_the_store_may_be_read_about():
    assert resolve_target("zen4-avx512-7t", environment(), ["zen4-avx512-7t"]) == "zen4-avx512-7t"


def test_an_unknown_target_is_answered_with_the_known_ones():
    with pytest.raises(UsageError) as caught:
        resolve_target("cpuu", environment(), ["zen4-avx512-7t"])
    for named in ("'cpuu'", "'cpu'", "'sapphirerapids-avx512-1t'", "'zen4-avx512-7t'"):
        assert named in str(caught.value)


def test_a_gpu_is_refused_with_what_to_do():
    with pytest.raises(UsageError, match="no GPU path yet; use --target cpu"):
        resolve_target("cuda", environment())


def test_a_slot_is_a_task_and_a_target():
    slot = parse_slot("masked_softmax/cpu", environment())
    assert str(slot) == "masked_softmax/sapphirerapids-avx512-1t"


@pytest.mark.parametrize("text", ["softmax", "softmax/", "/cpu", "a/b/cpu", "Soft max/cpu", ""])
def test_what_is_no_slot_is_refused_with_an_example(text: str):
    with pytest.raises(UsageError, match="softmax/cpu"):
        parse_slot(text, environment())
