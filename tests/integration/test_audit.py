"""Whatever is changed behind the record's back is said, with what exactly is wrong."""

import json
from dataclasses import replace
from types import SimpleNamespace

import pytest

from flows.audit import audit, audit_workspace
from flows.promotion import promote
from forge.errors import UsageError
from forge.judge.decisions import decide
from forge.lifecycle import CandidateState as S
from forge.types import Speedup
from forge.verdict import Accepted, Inconclusive, Rejected
from tests.integration.promotion_making import accepted, open_ledger, start
from tests.integration.store_making import (
    NIGHT,
    SOFTMAX,
    TARGET,
    edit_by_hand,
    git,
    open_store,
    promotion,
    seeded,
)
from tests.unit.decision_evidence import make_evidence, repeated

FOLDER = f"softmax/{TARGET}"


@pytest.fixture
def record(tmp_path):
    """A ledger and a store with one sealed generation and one rejected candidate."""
    store, seed = seeded(tmp_path)
    with open_ledger(tmp_path) as ledger:
        start(ledger, seed)
        promote(ledger, store, accepted(ledger, "c1", seed))
        slow = promotion("slow", seed.commit).candidate
        ledger.record_candidate(slow, "2026-03-02-1")
        screen = make_evidence(repeated(6, {"tune-0": 0.9}), phase="screen")
        digest = ledger.put_evidence(slow.id, screen)
        said = Rejected(check="not-faster", reason="slow")
        ledger.record_verdict(slow.id, "screen", digest, said)
        ledger.advance(slow.id, S.PROPOSED, S.REJECTED, "slow", "not-faster")
        yield SimpleNamespace(ledger=ledger, store=store, seed=seed, slow=slow, screen=digest)


def _change(ledger, sql, *values):
    """Change a row as somebody with the file and no respect would, leaving the chain alone."""
    with ledger.writing() as tx:
        tx.run(sql, *values)


def test_a_sound_record_has_no_problem_and_says_what_was_read(record):
    report = audit(record.ledger, record.store)
    assert report.problems == ()
    assert (report.generations, report.blobs, report.verdicts) == (2, 3, 3)
    assert report.to_text() == (
        "Compared 2 generations with the ledger, read 3 pieces of evidence and derived 3 "
        "verdicts again: all agree."
    )
    body = json.loads(json.dumps(report.to_json()))
    assert body["sound"] is True
    assert body["problems"] == []


def test_a_quick_audit_reads_the_evidence_of_what_was_sealed(record):
    record.ledger.blobs.path(record.screen).unlink()
    report = audit(record.ledger, record.store, full=False)
    assert report.problems == ()
    assert (report.blobs, report.verdicts) == (2, 2)


def test_a_deleted_tag_is_reported(record):
    git(record.store, "update-ref", "-d", f"refs/tags/{FOLDER}/g1")
    (problem,) = audit(record.ledger, record.store).problems
    assert problem.startswith(f"Store: The tag refs/tags/{FOLDER}/g1 is missing; it must name ")


def test_a_commit_by_hand_is_reported(record, tmp_path):
    edit = edit_by_hand(record.store, tmp_path, f"{FOLDER}/kernel.cpp", "// mine\n")
    problems = audit(record.ledger, record.store).problems
    assert len(problems) == 2
    assert all(edit[:12] in line and "by hand" in line for line in problems)


def test_a_commit_that_passes_for_one_of_ours_is_reported(record, tmp_path):
    """Someone seals by hand, trailers, author and tag included."""
    forged = promotion("forged", record.store.head(SOFTMAX).commit, 2)
    sealed = open_store(tmp_path).seal(forged)
    (problem,) = audit(record.ledger, record.store).problems
    assert problem.startswith(f"Commit {sealed.commit[:12]} (")
    assert problem.endswith(f"seals {SOFTMAX}, and the ledger never sealed it.")


def test_a_lost_generation_is_reported(record):
    sealed = record.store.head(SOFTMAX).commit
    git(record.store, "update-ref", "refs/heads/main", record.seed.commit)
    git(record.store, "update-ref", "-d", f"refs/tags/{FOLDER}/g1")
    assert audit(record.ledger, record.store).problems == (
        (
            f"Promotion promotion-c1 sealed generation 1 of {SOFTMAX} as {sealed}, which is not "
            "in the store."
        ),
        (
            "Store: The branch main lacks what was sealed: delete no tag, and restore it with "
            f"`git --git-dir={record.store.path} update-ref refs/heads/main {sealed}`."
        ),
    )


def test_a_generation_whose_commit_is_lost_too_must_come_from_a_copy(record):
    sealed = record.store.head(SOFTMAX).commit
    git(record.store, "update-ref", "refs/heads/main", record.seed.commit)
    (record.store.path / "objects" / sealed[:2] / sealed[2:]).unlink()
    assert any(
        "has lost commits" in line and "git clone --mirror COPY" in line
        for line in audit(record.ledger, record.store).problems
    )


def test_a_store_that_is_gone_is_reported_generation_by_generation(record, tmp_path):
    report = audit(record.ledger, open_store(tmp_path / "elsewhere"))
    *generations, advice = report.problems
    assert len(generations) == 2
    assert all("not in the store" in line for line in generations)
    assert "is gone: bring it back with `git clone --mirror COPY" in advice


@pytest.mark.parametrize("damage", ["missing", "truncated", "other"])
def test_a_damaged_blob_is_reported(record, damage):
    path = record.ledger.blobs.path(record.screen)
    if damage == "missing":
        path.unlink()
    elif damage == "truncated":
        path.write_bytes(path.read_bytes()[:-9])
    else:
        (other, *_) = [d for d in record.ledger.evidence_digests() if d != record.screen]
        path.write_bytes(record.ledger.blobs.path(other).read_bytes())
    (problem,) = audit(record.ledger, record.store).problems
    assert problem.startswith(f"Evidence {record.screen} cannot be read: ")
    assert str(path) in problem


def test_a_changed_event_breaks_the_chain(record):
    _change(record.ledger, "update events set body = '{}' where kind = 'promotion.sealed'")
    problems = audit(record.ledger, record.store).problems
    assert any("promotion.sealed promotion-c1) was changed" in line for line in problems)


def test_a_verdict_that_its_samples_do_not_give_is_reported(record):
    """The row and its event were both written so: only the samples tell."""
    slow = promotion("slower", record.seed.commit).candidate
    record.ledger.record_candidate(slow, "2026-03-02-1")
    screen = make_evidence(repeated(7, {"tune-0": 0.9}), phase="screen")
    digest = record.ledger.put_evidence(slow.id, screen)
    flattered = Inconclusive(reason="screened at 1.20x; confirmation decides")
    record.ledger.record_verdict(slow.id, "screen", digest, flattered)
    assert audit(record.ledger, record.store).problems == (
        (
            f"The screen verdict of slower is inconclusive; evidence {digest} gives rejected by "
            "not-faster."
        ),
    )


@pytest.mark.parametrize(("shift", "agrees"), [(1e-12, True), (1e-8, False)])
def test_a_bound_must_agree_to_nine_decimals(record, shift, agrees):
    name = promotion("close", record.seed.commit).candidate
    record.ledger.record_candidate(name, "2026-03-02-1")
    evidence = make_evidence(repeated(40, {"tune-0": 1.3}), policy={"alpha": 0.025})
    digest = record.ledger.put_evidence(name.id, evidence)
    exact = decide(evidence).speedup
    said = Accepted(
        speedup=Speedup(point=exact.point, lower=exact.lower + shift, upper=exact.upper)
    )
    record.ledger.record_verdict(name.id, "confirm", digest, said)
    assert (audit(record.ledger, record.store).problems == ()) is agrees


def test_a_figure_that_its_samples_do_not_give_is_reported(tmp_path):
    """The promotion was published faster than it was measured, in commit and ledger alike."""
    store, seed = seeded(tmp_path)
    with open_ledger(tmp_path) as ledger:
        start(ledger, seed)
        made = accepted(ledger, "c1", seed)
        boast = Speedup(point=made.speedup.point + 0.2, lower=1.7, upper=2.0)
        promote(ledger, store, replace(made, speedup=boast))
        (problem,) = audit(ledger, store).problems
    assert problem.startswith(f"Promotion promotion-c1 ({SOFTMAX}, g1) was published at ")
    assert "over generation 0; evidence" in problem


def test_a_kernel_other_than_the_measured_one_is_reported(tmp_path):
    store, seed = seeded(tmp_path)
    with open_ledger(tmp_path) as ledger:
        start(ledger, seed)
        made = accepted(ledger, "c1", seed)
        other = accepted(ledger, "c2", seed)
        swapped = replace(made, evidence=other.evidence)
        promote(ledger, store, swapped)
        problems = audit(ledger, store).problems
    assert any("its evidence" in line and other.evidence in line for line in problems)


def test_a_promotion_without_an_accepted_confirmation_is_reported(tmp_path):
    store, seed = seeded(tmp_path)
    with open_ledger(tmp_path) as ledger:
        start(ledger, seed)
        made = accepted(ledger, "c1", seed)
        promote(ledger, store, replace(made, confirm_evidence=made.evidence))
        assert audit(ledger, store).problems == (
            "Promotion promotion-c1 was sealed without an accepted confirm.",
        )


def test_an_unfinished_promotion_is_reported_as_that_alone(tmp_path):
    store, seed = seeded(tmp_path)
    with open_ledger(tmp_path) as ledger:
        start(ledger, seed)
        made = accepted(ledger, "c1", seed)
        ledger.intend(made)
        store.seal(made)
        assert audit(ledger, store).problems == (
            (
                f"Promotion promotion-c1 of {SOFTMAX} is only intended; the next `forge night` "
                "finishes it."
            ),
        )


def test_a_workspace_is_audited_by_its_paths(tmp_path):
    store, seed = seeded(tmp_path)
    paths = SimpleNamespace(
        home=tmp_path,
        ledger_db=tmp_path / "ledger.duckdb",
        evidence_dir=tmp_path / "evidence",
        baselines_git=store.path,
    )
    with pytest.raises(UsageError, match="nothing to audit in"):
        audit_workspace(paths, lambda: NIGHT)
    with open_ledger(tmp_path) as ledger:
        start(ledger, seed)
    report = audit_workspace(paths, lambda: NIGHT)
    assert report.generations == 1
    assert report.to_text().startswith("Compared 1 generation with the ledger, read 0 pieces of")
    assert audit_workspace(paths, lambda: NIGHT).problems == ()
