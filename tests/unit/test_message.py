from hypothesis import given
from hypothesis import strategies as st

from baselines.message import duration, figure, headline, parse_trailers, plain, promotion_message
from forge.promotion import Promotion, WorkloadLine
from forge.types import Candidate, CandidateId, KernelSource, Slot, Speedup

SLOT = Slot(task="softmax", target="sapphirerapids-avx512-1t")
HOSTILE = st.one_of(
    st.text(max_size=200),
    st.text(alphabet="\n\r\u2028\u202e\x00: Promtin-Id", max_size=60),
    st.just("x\n\nPromotion-Id: forged\nGeneration: 9"),
)


def promotion(title="two passes", student="sweep", model="", rival="", axes="rows=1"):
    candidate = Candidate(
        id=CandidateId("c1"),
        slot=SLOT,
        source=KernelSource(files={"kernel.cpp": ""}),
        parent="5f" * 20,
        student=student,
        title=title,
    )
    speedup = Speedup(point=1.84, lower=1.79, upper=1.89)
    return Promotion(
        id="p1",
        candidate=candidate,
        generation=2,
        parent=candidate.parent,
        speedup=speedup,
        over_parent=speedup,
        evidence="e",
        confirm_evidence="f",
        night="n1",
        environment="abc",
        alpha=0.025,
        model=model,
        workloads=(WorkloadLine(axes=axes, ratio=1.1, lower=1.0, upper=1.2),),
        rival=rival,
        rival_speedup=1.3,
    )


@given(HOSTILE, HOSTILE, HOSTILE, HOSTILE, HOSTILE)
def test_what_a_student_wrote_never_becomes_a_trailer_of_ours(title, student, model, rival, axes):
    text = promotion_message(promotion(title, student, model, rival, axes))
    trailers = parse_trailers(text)
    assert trailers["Promotion-Id"] == "p1"
    assert trailers["Generation"] == "2"
    assert trailers["Speedup"] == "1.8400"
    assert text.rpartition("\n\n")[2].count("Promotion-Id: p1\n") == 1
    assert text.rpartition("\n\n")[2].startswith("Promotion-Id: p1\nTask: softmax\n")
    assert len(text.split("\n", 1)[0]) <= 72
    assert "\x00" not in text
    assert text.encode().decode() == text


@given(st.text(max_size=300), st.integers(min_value=10, max_value=200))
def test_plain_text_is_one_printable_line_and_stays_so(text, width):
    line = plain(text, width)
    assert len(line) <= width
    assert line.splitlines() in ([], [line])
    assert plain(line, width) == line


def test_a_long_title_is_cut_after_a_word():
    start = "softmax: generation 2 is 1.84x eager"
    for title, shown in (
        ("2 passes, 256-bit lanes, 4 accumulators, nt", "2 passes, 256-bit lanes..."),
        ("x, then a great many words that go on and on", "x, then a great many words..."),
        ("a" * 28 + ", " + "b" * 60, "a" * 28 + "..."),
    ):
        first = promotion_message(promotion(title)).splitlines()[0]
        assert first == f"{start} ({shown})"


@given(st.text(alphabet="ab ,(", max_size=120), st.integers(min_value=0, max_value=90))
def test_a_title_is_whole_or_ends_after_one_of_its_words(title, length):
    line = headline("s" * length, title)
    assert len(line) <= max(72, length)
    shown = line[length:].removeprefix(" (").removesuffix(")")
    assert " ".join(title.split()).startswith(shown.removesuffix("..."))
    first = (plain(title) + " ").replace(",", " ").split(" ")[0]
    if shown.endswith("...") and len(first) < 70 - length - 6:
        rest = plain(title)[len(shown) - 3 :]
        assert rest[0] in " ,("


def test_a_title_that_fits_has_no_ellipsis():
    room = 72 - len("start ()")
    assert headline("start", "x" * room) == f"start ({'x' * room})"
    assert headline("start", "x" * (room + 1)) == f"start ({'x' * (room - 3)}...)"
    assert headline("start" * 20, "no room") == "start" * 20


def test_a_time_has_three_digits_and_a_unit():
    values = (850, 4_120, 41_230, 999_600, 3_410_000, 2_500_000_000)
    texts = ["850 ns", "4.12 us", "41.2 us", "1000 us", "3.41 ms", "2.50 s"]
    assert [duration(value) for value in values] == texts


def test_a_kernel_without_a_title_has_no_empty_brackets():
    first = promotion_message(promotion(" \n")).splitlines()[0]
    assert first == "softmax: generation 2 is 1.84x eager"


def test_prose_is_no_trailer():
    assert parse_trailers("Fix: a thing\n\nSee: this\nand that\n") == {}
    assert parse_trailers("Tune it a little\n") == {}
    assert parse_trailers("Title\n\nTask: softmax\nStore-Format: 1\n") == {
        "Task": "softmax",
        "Store-Format": "1",
    }


def test_a_figure_has_four_decimals():
    assert figure(1.84) == "1.8400"
