"""What a stranger reads in the store, word for word.

After a deliberate change of wording, delete the ``*.expected`` file, run this twice, and read
the new one.
"""

from pathlib import Path

import pytest

from baselines import message
from tests.integration.store_making import (
    REFERENCE,
    SOFTMAX,
    TASK_DIGEST,
    promotion,
)

HERE = Path(__file__).parent
PARENT = "5f" * 20

MESSAGES = {
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
