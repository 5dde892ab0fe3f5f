"""The description of the service, with the columns of the model in use.

It is made anew for each request, because a reload may bring other columns.
"""

from collections.abc import Mapping
from typing import Any

from locuscore import __version__
from locuscore.service._arrow_rows import CONTENT_TYPE as ARROW
from locuscore.service._guard import WITHOUT_KEY
from locuscore.service._json_rows import CONTENT_TYPE as JSON
from locuscore.service._json_rows import JsonKind, json_kinds
from locuscore.service._model import Model
from locuscore.service._settings import Settings

SCORE_ERRORS = {
    "400": "The body cannot be read.",
    "408": "The request was not sent to its end in time.",
    "413": "The body is too large, or has too many rows.",
    "415": "Another content type, or compressed.",
    "422": "The rows are not those of the model, or it cannot score them.",
    "503": "Too many requests are under way; Retry-After says when to come back.",
    "504": "No answer in time.",
}
HEALTH_ERRORS = {"503": "The scoring thread has stopped."}
LOAD_ERRORS = {
    "403": "The service has no API key.",
    "409": "The archive cannot be loaded; the old model stays.",
}
TEXT, NUMBER, TRUTH = {"type": "string"}, {"type": ["number", "null"]}, {"type": "boolean"}
PLAIN_TEXT = {"text/plain": {"schema": TEXT}}
ARROW_STREAM = {ARROW: {"schema": {"type": "string", "format": "binary"}}}


def describe(model: Model, settings: Settings) -> dict[str, Any]:
    """Return the OpenAPI document."""
    paths = {
        "/score": {"post": _score(model, settings)},
        "/model": {"get": _operation("The card and the facts of the archive.", _json("Model"))},
        "/healthz": {"get": _operation("Can rows be scored?", _json("Health"), HEALTH_ERRORS)},
        "/metrics": {"get": _operation("Counters for Prometheus.", PLAIN_TEXT)},
        "/openapi.json": {"get": _operation("This description.", _json("Any"))},
        "/reload": {"post": _operation("Load the archive again.", _json("Reloaded"), LOAD_ERRORS)},
    }
    components: dict[str, Any] = {"schemas": _schemas(model, settings)}
    if settings.api_key is not None:
        components["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
        for path in paths.keys() - WITHOUT_KEY:
            for operation in paths[path].values():
                operation["security"] = [{"key": []}]
                operation["responses"]["401"] = _error("The API key is missing or wrong.")
    info = {"title": "locuscore", "version": __version__, "description": model.scorer.card}
    return {"openapi": "3.1.0", "info": info, "paths": paths, "components": components}


def _operation(
    summary: str, content: Mapping[str, Any], errors: Mapping[str, str] | None = None
) -> dict[str, Any]:
    answers = {status: _error(text) for status, text in (errors or {}).items()}
    answers["200"] = {"description": summary, "content": content}
    return {"summary": summary, "responses": answers}


def _score(model: Model, settings: Settings) -> dict[str, Any]:
    content = _json("Rows") | ARROW_STREAM
    content[JSON]["example"] = {"rows": [example(model)]}
    description = (
        "An infinite bound is null in JSON, with a flag beside it; an Arrow stream is answered "
        f"with an Arrow stream, where it is infinite. At most {settings.max_rows} rows and "
        f"{settings.max_body_bytes} bytes."
    )
    answer = _json("Scored") | ARROW_STREAM
    return {
        "operationId": "score",
        "description": description,
        "requestBody": {"required": True, "content": content},
        **_operation("One result for each row, in order.", answer, SCORE_ERRORS),
    }


def _schemas(model: Model, settings: Settings) -> dict[str, Any]:
    rows = {"type": "array", "items": _ref("Row"), "maxItems": settings.max_rows}
    scored = {"type": "array", "items": _ref("ScoredRow")}
    return {
        "Row": _row(model),
        "Rows": {**_object({"rows": rows}), "additionalProperties": False},
        "ScoredRow": _scored_row(model),
        "Scored": _object({"model": TEXT, "rows": scored}),
        "Model": _object({"model": TEXT, "card": TEXT}),
        "Reloaded": _object({"model": TEXT}),
        "Health": _object({"status": TEXT}),
        "Any": {"type": "object"},
        "Error": _object({"error": TEXT}),
    }


def _row(model: Model) -> dict[str, Any]:
    schema = model.scorer.schema
    columns = [
        _column(kind, name) for kind, name in zip(json_kinds(schema), schema.types, strict=True)
    ]
    if schema.kind == "array":
        n = len(columns)  # all of one type
        row = {"type": "array", "items": columns[0], "minItems": n, "maxItems": n}
    else:
        row = _object(dict(zip(map(str, schema.names), columns, strict=True)))
        row["additionalProperties"] = False
    return {**row, "example": example(model)}


def _column(kind: JsonKind | None, type_name: str) -> dict[str, Any]:
    if kind is None:
        return {"not": {}, "description": f"{type_name}: only in an Arrow stream"}
    return {**kind.schema, "description": f"{kind.words}; null if missing"}


def _scored_row(model: Model) -> dict[str, Any]:
    # A prediction is of any type: text, where it is a class.
    kinds = {"prediction": {}, "bound": NUMBER, "score": NUMBER, "flag": TRUTH}
    columns: dict[str, Any] = {}
    for column in model.scorer.columns:
        columns[column.name] = kinds[column.role]
        if column.name in model.bounds:
            columns[f"{column.name}_is_infinite"] = TRUTH
    return _object(columns)


def example(model: Model) -> Any:
    """Return a row of the right types, with a known level where the encoder has some."""
    schema = model.scorer.schema
    encoder = model.scorer.locus.signals_.encoder
    levels = {} if encoder is None else encoder.codes_
    usual = [None if kind is None else kind.example for kind in json_kinds(schema)]
    values = [next(iter(levels.get(j, ())), value) for j, value in enumerate(usual)]
    if schema.kind == "array":
        return values
    return dict(zip(map(str, schema.names), values, strict=True))


def _object(properties: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties)}


def _error(description: str) -> dict[str, Any]:
    return {"description": description, "content": _json("Error")}


def _json(name: str) -> dict[str, Any]:
    return {JSON: {"schema": _ref(name)}}


def _ref(name: str) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{name}"}
