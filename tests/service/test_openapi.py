"""Whatever fits or breaks the description of the service: never a failure, always as described."""

import pytest
from hypothesis import HealthCheck, given, settings

from archives_for_tests import small_scorer
from service_for_tests import frame_scorer, running

pytestmark = pytest.mark.extra


@pytest.mark.parametrize("make", [frame_scorer, small_scorer])
@pytest.mark.parametrize("mode", ["POSITIVE", "NEGATIVE"])
def test_no_request_fails_the_service(make, mode):
    import schemathesis
    from schemathesis import GenerationMode
    from schemathesis.checks import not_a_server_error
    from schemathesis.specs.openapi.checks import (
        content_type_conformance,
        response_schema_conformance,
        status_code_conformance,
    )

    checks = [
        not_a_server_error,
        content_type_conformance,
        response_schema_conformance,
        status_code_conformance,
    ]
    with running(make()) as client:
        schema = schemathesis.openapi.from_url(f"{client.base_url}/openapi.json")
        tried = 0
        for found in schema.get_all_operations():
            operation = found.ok()
            if mode == "NEGATIVE" and not operation.body:
                continue  # nothing in such a request can be wrong
            cases = operation.as_strategy(generation_mode=GenerationMode[mode])

            @settings(max_examples=40, suppress_health_check=list(HealthCheck))
            @given(cases)
            def send(case):
                nonlocal tried
                tried += 1
                case.call_and_validate(checks=checks)

            send()
        assert tried >= 20
