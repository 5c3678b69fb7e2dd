"""What a stranger reads in the store, word for word.

After a deliberate change of wording, delete the ``*.expected`` file, run this twice, and read
the new one.
"""

from pathlib import Path

import pytest

from baselines import message
from forge.promotion import RivalLine, WorkloadLine
from tests.integration.store_making import (
    REFERENCE,
    SOFTMAX,
    TASK_DIGEST,
    promotion,
)

HERE = Path(__file__).parent
PARENT = "5f" * 20

# As a night of today records it; the others are older records, with less in them.
FULL = {
    "machine": (
        "Intel(R) Xeon(R) Platinum 8481C CPU @ 2.70GHz, 1 thread, g++ (Debian 12.2.0-14) 12.2.0 "
        "-std=c++17 -O3 -march=native, PyTorch 2.9.0+cpu, Python 3.11.2, Linux 6.1.0-18"
    ),
    "workloads": (
        WorkloadLine(
            axes="rows=4096 cols=1024", ratio=1.0954, lower=1.0712, upper=1.1301, time_ns=1.234e6
        ),
        WorkloadLine(axes="rows=1 cols=50257", ratio=1.2, lower=1.1, upper=1.31, time_ns=9_876.0),
    ),
}
RIVALS = (
    RivalLine(name="torch.compile", ratio=1.307, lower=1.28, upper=1.334),
    RivalLine(name="eager", ratio=1.71, lower=1.66, upper=1.76),
)
LOST = (RivalLine(name="torch.compile", ratio=0.874, lower=0.85, upper=0.9),)

MESSAGES = {
    "in-full": message.promotion_message(promotion("c-0011", PARENT, 2, rivals=RIVALS, **FULL)),
    "in-full-losing-to-a-rival": message.promotion_message(
        promotion("c-0013", PARENT, 1, rival_speedup=0.874, rivals=LOST, **FULL)
    ),
    "second-generation": message.promotion_message(promotion("c-0007", PARENT, 2)),
    "first-generation-losing-to-a-rival": message.promotion_message(
        promotion("c-0003", PARENT, 1, rival_speedup=0.874)
    ),
    "by-a-model-without-workloads-or-rival": message.promotion_message(
        promotion(
            "c-0009",
            PARENT,
            2,
            workloads=(),
            rival="",
            rival_speedup=None,
            model="some-model-1",
            cost_usd=0.1234,
        )
    ),
    "seed": message.seed_message(SOFTMAX, REFERENCE, TASK_DIGEST),
    "start": message.start_message(),
    "readme": message.readme(),
}


@pytest.mark.parametrize("name", MESSAGES)
def test_a_message_reads_as_it_was_approved(name):
    file = HERE / f"{name}.expected"
    if not file.exists():
        file.write_text(MESSAGES[name])
        pytest.fail(f"{file.name} was missing and has been written; read it, and run this again.")
    assert MESSAGES[name] == file.read_text()


@pytest.mark.parametrize("name", MESSAGES.keys() - {"readme"})
def test_no_line_of_a_message_is_too_long_to_read(name):
    lines = MESSAGES[name].splitlines()
    assert [line for line in lines if len(line) > 80] == []
    assert len(lines[0]) <= 72
