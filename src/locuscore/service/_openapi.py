"""The description of the service, with the columns of the model in use."""

from typing import Any

from locuscore import __version__
from locuscore.service._arrow_rows import CONTENT_TYPE as ARROW
from locuscore.service._json_rows import KINDS, kind_name, whole_range
from locuscore.service._model import Model
from locuscore.service._settings import RefusalError, Settings

ERRORS = {
    "400": "The body cannot be read.",
    "408": "The request was not sent to its end in time.",
    "413": "The body is too large, or has too many rows.",
    "415": "Another content type, or compressed.",
    "422": "The rows are not those of the model, or it cannot score them.",
    "503": "Too many requests are under way; Retry-After says when to come back.",
    "504": "No answer in time.",
}


def describe(model: Model, settings: Settings) -> dict[str, Any]:
    """Return the OpenAPI document."""
    document: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {"title": "locuscore", "version": __version__, "description": model.scorer.card},
        "paths": {
            "/score": {"post": _score(model, settings)},
            "/model": {"get": _get("The guarantee card and the facts of the archive.", "Model")},
            "/healthz": {"get": _get("Whether rows can be scored.", "Health")},
            "/metrics": {"get": _text("Counters for Prometheus.")},
            "/openapi.json": {"get": _get("This description.", "Any")},
            "/reload": {"post": _reload()},
        },
        "components": {"schemas": _schemas(model, settings)},
    }
    if settings.api_key is not None:
        _ask_for_key(document)
    return document


def _score(model: Model, settings: Settings) -> dict[str, Any]:
    arrow = {"schema": {"type": "string", "format": "binary"}}
    body = {
        "required": True,
        "content": {
            "application/json": {"schema": _ref("Rows"), "example": {"rows": [example(model)]}},
            ARROW: arrow,
        },
    }
    scored = {"application/json": {"schema": _ref("Scored")}, ARROW: arrow}
    ok = {"description": "One result for each row, in order.", "content": scored}
    errors = {status: _error(text) for status, text in ERRORS.items()}
    return {
        "operationId": "score",
        "summary": "Score rows",
        "description": (
            "An infinite bound is null in JSON, with a flag beside it; an Arrow stream is answered "
            f"with an Arrow stream, where it is infinite. At most {settings.max_rows} rows and "
            f"{settings.max_body_bytes} bytes."
        ),
        "requestBody": body,
        "responses": {"200": ok, **errors},
    }


def _get(summary: str, schema: str) -> dict[str, Any]:
    content = {"application/json": {"schema": _ref(schema)}}
    answers: dict[str, Any] = {"200": {"description": summary, "content": content}}
    if schema == "Health":
        answers["503"] = _error("The scoring thread has stopped.")
    return {"summary": summary, "responses": answers}


def _text(summary: str) -> dict[str, Any]:
    content = {"text/plain": {"schema": {"type": "string"}}}
    return {"summary": summary, "responses": {"200": {"description": summary, "content": content}}}


def _reload() -> dict[str, Any]:
    ok = {
        "description": "The model now in use.",
        "content": {"application/json": {"schema": _ref("Reloaded")}},
    }
    errors = {
        "403": _error("The service has no API key."),
        "409": _error("The archive cannot be loaded; the old model stays."),
    }
    return {"summary": "Load the archive again", "responses": {"200": ok, **errors}}


def _ask_for_key(document: dict[str, Any]) -> None:
    document["components"]["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
    for path, methods in document["paths"].items():
        for operation in methods.values():
            if path != "/healthz":
                operation["security"] = [{"key": []}]
                operation["responses"]["401"] = _error("The API key is missing or wrong.")


def _schemas(model: Model, settings: Settings) -> dict[str, Any]:
    text = {"type": "string"}
    rows = {"type": "array", "items": _ref("Row"), "maxItems": settings.max_rows}
    scored = {"type": "array", "items": _ref("ScoredRow")}
    return {
        "Row": _row(model),
        "Rows": {**_object({"rows": rows}), "additionalProperties": False},
        "ScoredRow": _scored_row(model),
        "Scored": _object({"model": text, "rows": scored}),
        "Model": _object({"model": text, "card": text}),
        "Reloaded": _object({"model": text}),
        "Health": _object({"status": text}),
        "Any": {"type": "object"},
        "Error": _object({"error": text}),
    }


def _row(model: Model) -> dict[str, Any]:
    schema = model.scorer.schema
    columns = {
        str(name): _column(kind) for name, kind in zip(schema.names, schema.types, strict=True)
    }
    if schema.kind != "array":
        return {**_object(columns), "additionalProperties": False, "example": example(model)}
    n = len(columns)
    items = next(iter(columns.values()))
    return {
        "type": "array",
        "items": items,
        "minItems": n,
        "maxItems": n,
        "example": example(model),
    }


def _column(type_name: str) -> dict[str, Any]:
    try:
        kind = KINDS[kind_name(type_name)]
    except RefusalError:
        return {"not": {}, "description": f"{type_name}: only in an Arrow stream"}
    low, high = whole_range(type_name)
    limits = {} if low is None else {"minimum": low, "maximum": high}
    return {**kind.schema, **limits, "description": f"{kind.words}; null if missing"}


def _scored_row(model: Model) -> dict[str, Any]:
    number, truth = {"type": ["number", "null"]}, {"type": "boolean"}
    kinds = {"prediction": {}, "bound": number, "score": number, "flag": truth}  # {}: of any type
    columns: dict[str, Any] = {}
    for column in model.scorer.columns:
        columns[column.name] = kinds[column.role]
        if column.name in model.bounds:
            columns[f"{column.name}_is_infinite"] = truth
    return _object(columns)


def example(model: Model) -> Any:
    """Return a row of the right types, with a known level where the encoder has some."""
    schema = model.scorer.schema
    encoder = model.scorer.locus.signals_.encoder
    levels = {} if encoder is None else encoder.codes_
    values = [next(iter(levels.get(j, ())), _example(kind)) for j, kind in enumerate(schema.types)]
    if schema.kind == "array":
        return values
    return dict(zip(map(str, schema.names), values, strict=True))


def _example(type_name: str) -> Any:
    try:
        return KINDS[kind_name(type_name)].example
    except RefusalError:
        return None


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties)}


def _error(description: str) -> dict[str, Any]:
    content = {"application/json": {"schema": _ref("Error")}}
    return {"description": description, "content": content}


def _ref(name: str) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{name}"}
