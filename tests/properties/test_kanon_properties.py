"""k over the output, for any log, k and scope, by the independent checker."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloakwork.checks.k_anonymity import check
from cloakwork.errors import MechanismError
from cloakwork.guarantees import KAnonymity
from cloakwork.log.eventlog import TIMESTAMP
from cloakwork.mechanisms.aggregates import VariantCounts
from cloakwork.mechanisms.base import MapCases
from cloakwork.mechanisms.kanon.pretsa import Pretsa, PretsaParams, Scope
from cloakwork.noise import secret
from contracts.mechanism_contract import assert_is_a_log
from contracts.sample_logs import RESOURCE, courses_of, log_of

PRETSA = Pretsa()
COURSES = st.lists(st.text("abcd", max_size=6), max_size=40)


@pytest.mark.parametrize("scope", ["variants", "prefixes"])
@given(courses=COURSES, k=st.integers(2, 8))
def test_pretsa_releases_k_anonymous_logs_of_known_variants(courses: list[str], k: int, scope: Scope) -> None:
    """Every class holds k; every variant was seen; no case is lost; what is kept keeps its row, what is new has no time."""
    log, params = log_of(courses), PretsaParams(k=k, scope=scope)
    summary = VariantCounts().of(log)
    if 0 < len(courses) < k:
        with pytest.raises(MechanismError):
            PRETSA.decide(params, summary, secret())
        return
    decision = PRETSA.decide(params, summary, secret())
    action = PRETSA.rewrite(params, decision, secret())
    assert isinstance(action, MapCases)
    released = action.apply(log)

    check(released, KAnonymity(kind="k-anonymity", k=k, scope=scope))
    assert_is_a_log(released)
    assert set(courses_of(released)) <= set(courses_of(log))
    assert log.cases.equals(released.cases)
    assert released.events[TIMESTAMP].is_null().equals(released.events[RESOURCE].is_null())
    kept = released.events.drop_nulls()
    assert kept.join(log.events, on=log.events.columns, how="semi").height == kept.height
    assert released.events.null_count()[RESOURCE].item() <= decision.internal["distance"]
    assert np.array_equal(kept[RESOURCE].unique(maintain_order=True), kept[RESOURCE])
