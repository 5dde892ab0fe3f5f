"""Whatever fits or breaks the description of the service: never a failure, always as described."""

import pytest
from hypothesis import HealthCheck, given, settings

from archives_for_tests import small_scorer
from service_for_tests import frame_scorer, running

pytestmark = pytest.mark.extra


def test_every_route_is_described_and_says_whether_it_needs_the_key():
    from locuscore.service import Settings, create_app
    from locuscore.service._openapi import describe

    app, settings = create_app(small_scorer()), Settings(api_key="k")
    paths = describe(app.state.service.store.current, settings)["paths"]
    described = {path: {method.upper() for method in methods} for path, methods in paths.items()}
    assert described == {route.path: route.methods - {"HEAD"} for route in app.routes}
    is_open = {
        path for path, methods in paths.items() for how in methods.values() if "security" not in how
    }
    assert is_open == {"/healthz", "/livez", "/readyz"}


def with_ledger(folder):
    from locuscore.service import LedgerSettings, Settings

    return Settings(ledger=LedgerSettings(folder / "decisions.db", folder / "spool"))


@pytest.mark.parametrize(
    ("make", "has_ledger"), [(frame_scorer, False), (small_scorer, False), (frame_scorer, True)]
)
@pytest.mark.parametrize("mode", ["POSITIVE", "NEGATIVE"])
def test_no_request_fails_the_service(make, has_ledger, mode, tmp_path):
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
    with running(make(), with_ledger(tmp_path) if has_ledger else None) as client:
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
