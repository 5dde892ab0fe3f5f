"""The description of the service, with the columns of the model in use.

It is made anew for each request, because a reload may bring other columns.
"""

from collections.abc import Mapping
from typing import Any

from locuscore import __version__
from locuscore.service._arrow_rows import CONTENT_TYPE as ARROW
from locuscore.service._guard import LABELS, PAGE, WATCH, WITHOUT_KEY
from locuscore.service._ids import AUDIT, ID, LARGEST, LONGEST_ID, id_column
from locuscore.service._json_rows import CONTENT_TYPE as JSON
from locuscore.service._json_rows import JsonKind, example_values, json_kinds
from locuscore.service._labels import LONGEST_SOURCE
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
READY_ERRORS = {"503": "Not now: it stops, is overloaded, or the model cannot score."}
LOAD_ERRORS = {
    "403": "The service has no key, or that of the request may not reload.",
    "409": "The archive cannot be loaded, or takes other rows; the old model stays.",
}
LEDGER_ERRORS = {
    "503": "The ledger cannot be used now; Retry-After says when to come back.",
    "504": "The ledger gave no answer in time.",
}
LABEL_ERRORS = LEDGER_ERRORS | {
    "400": "The body cannot be read.",
    "408": "The request was not sent to its end in time.",
    "413": "The body is too large, or has too many labels.",
    "415": "Another content type, or compressed.",
    "422": "The body is no list of labels, or they cannot be kept.",
}
TEXT, NUMBER, TRUTH = {"type": "string"}, {"type": ["number", "null"]}, {"type": "boolean"}
PLAIN_TEXT = {"text/plain": {"schema": TEXT}}
HTML = {"text/html": {"schema": TEXT}}
ROW_ID = {"type": ["string", "integer"], "minLength": 1, "maxLength": LONGEST_ID}
ROW_ID |= {"minimum": -LARGEST, "maximum": LARGEST - 1}
ARROW_STREAM = {ARROW: {"schema": {"type": "string", "format": "binary"}}}


def describe(model: Model, settings: Settings) -> dict[str, Any]:
    """Return the OpenAPI document."""
    paths = {
        "/score": {"post": _score(model, settings)},
        "/model": {"get": _operation("The card and the facts of the archive.", _json("Model"))},
        "/healthz": {"get": _operation("Can rows be scored?", _json("Health"), HEALTH_ERRORS)},
        "/livez": {"get": _operation("Does the process answer?", _json("Health"))},
        "/readyz": {"get": _operation("Would rows be scored now?", _json("Health"), READY_ERRORS)},
        "/metrics": {"get": _operation("Counters for Prometheus.", PLAIN_TEXT)},
        "/openapi.json": {"get": _operation("This description.", _json("Any"))},
        "/docs": {"get": _operation("The same as a page, to try it.", HTML)},
        "/reload": {"post": _operation("Load the archive again.", _json("Reloaded"), LOAD_ERRORS)},
    }
    if settings.ledger is not None:
        paths |= _watched()
    components: dict[str, Any] = {"schemas": _schemas(model, settings)}
    schemes: dict[str, Any] = {}
    for path, operations in paths.items():
        if (found := _key_of(path, settings)) is not None:
            name, scheme = found
            schemes[name] = {"type": "http", "scheme": scheme}
            for operation in operations.values():
                operation["security"] = [{name: []}]
                operation["responses"]["401"] = _error("The key is missing or wrong.")
                if path in OWN_KEYS:
                    operation["responses"]["403"] = _error("The route has no key yet.")
                elif settings.keys is not None:
                    operation["responses"]["403"] = _error("The key has not the role for this.")
    if schemes:
        components["securitySchemes"] = schemes
    info = {"title": "locuscore", "version": __version__, "description": model.scorer.card}
    return {"openapi": "3.1.0", "info": info, "paths": paths, "components": components}


OWN_KEYS = {LABELS: "labels_key", WATCH: "watch_key", PAGE: "watch_key"}


def _key_of(path: str, settings: Settings) -> tuple[str, str] | None:
    """The name of the key that a path asks for, and how it is sent."""
    has_key = settings.api_key is not None or settings.keys is not None
    if path in WITHOUT_KEY:
        return None
    if path not in OWN_KEYS:
        return ("key", "bearer") if has_key else None
    name = OWN_KEYS[path]
    if not has_key and getattr(settings.ledger, name) is None:
        return None
    return name, "bearer" if path == LABELS else "basic"


def _watched() -> dict[str, Any]:
    """Routes of a service with a ledger."""
    labels = {
        "operationId": "labels",
        "description": "A label may come before its decision, twice, or corrected.",
        "requestBody": {"required": True, "content": _json("Labels")},
        **_operation("Add labels of decisions.", _json("Labelled"), LABEL_ERRORS),
    }
    status = _operation("Is the promise kept?", _json("Any") | HTML, LEDGER_ERRORS)
    page = _operation("The same as a page.", HTML, LEDGER_ERRORS)
    return {LABELS: {"post": labels}, WATCH: {"get": status}, PAGE: {"get": page}}


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
        f"{settings.max_body_bytes} bytes. Ids of rows are a column called "
        f"{id_column(model.scorer.schema)!r}, or in JSON a list beside the rows."
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
    ids = {"type": "array", "items": ROW_ID, "maxItems": settings.max_rows}
    body = _object({"rows": rows}) | {"additionalProperties": False}
    body["properties"] = {"rows": rows, "ids": ids}
    return {
        "Row": _row(model),
        "Rows": body,
        "ScoredRow": _scored_row(model, settings),
        "Scored": _object({"model": TEXT, "rows": scored}),
        "Model": _object({"model": TEXT, "card": TEXT}),
        "Reloaded": _object({"model": TEXT}),
        "Health": _object({"status": TEXT}),
        "Any": {"type": "object"},
        "Error": _object({"error": TEXT}),
        **({} if settings.ledger is None else _label_schemas(ids)),
    }


def _label_schemas(ids: Mapping[str, Any]) -> dict[str, Any]:
    def listed(kind: Mapping[str, Any]) -> dict[str, Any]:
        return {"type": "array", "items": kind, "maxItems": ids["maxItems"]}

    time = {"type": "string", "format": "date-time"}
    properties = {
        "ids": ids,
        "y": listed({"type": ["string", "number", "boolean", "array"]}),
        "losses": listed({"type": "number"}),
        "times": listed(time),
        "source": {**TEXT, "minLength": 1, "maxLength": LONGEST_SOURCE},
    }
    labels = {"type": "object", "properties": properties, "required": ["ids"]}
    whole = {"type": "integer"}
    return {
        "Labels": {**labels, "additionalProperties": False},
        "Labelled": _object({"new": whole, "known": whole}),
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
        named: dict[str, Any] = dict(zip(map(str, schema.names), columns, strict=True))
        row = _object(named) | {"additionalProperties": False}
        row["properties"] = named | {id_column(schema): ROW_ID}
    return {**row, "example": example(model)}


def _column(kind: JsonKind | None, type_name: str) -> dict[str, Any]:
    if kind is None:
        return {"not": {}, "description": f"{type_name}: only in an Arrow stream"}
    return {**kind.schema, "description": f"{kind.words}; null if missing"}


def _scored_row(model: Model, settings: Settings) -> dict[str, Any]:
    # A prediction is of any type: text, where it is a class.
    kinds = {"prediction": {}, "bound": NUMBER, "score": NUMBER, "flag": TRUTH}
    columns: dict[str, Any] = {}
    for column in model.scorer.columns:
        columns[column.name] = kinds[column.role]
        if column.name in model.bounds:
            columns[f"{column.name}_is_infinite"] = TRUTH
    if settings.ledger is not None:
        return _object({ID: TEXT, AUDIT: TRUTH, **columns})
    return {**_object(columns), "properties": {ID: TEXT, **columns}}


def example(model: Model) -> Any:
    """Return a made-up row of the right types."""
    schema, values = model.scorer.schema, example_values(model.scorer)
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
