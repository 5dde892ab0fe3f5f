"""``locuscore serve``: an archive over HTTP."""

import os
from functools import partial
from typing import Annotated

from locuscore import Scorer
from locuscore.cli._option_values import chosen_classes, chosen_key, chosen_predictor
from locuscore.cli._options import (
    AllowAnotherPredictor,
    Archive,
    Debug,
    KeyFile,
    OwnClasses,
    Predictor,
    Quiet,
    Trust,
    TrustPickle,
    option,
)

KEY = "LOCUSCORE_API_KEY"


def serve(
    archive: Archive,
    host: Annotated[
        str, option("--host", metavar="ADDRESS", text="Where to listen.")
    ] = "127.0.0.1",
    port: Annotated[int, option("--port", metavar="N", least=0, text="0 for a free one.")] = 8000,
    predictor: Predictor = None,
    trust: Trust = None,
    trust_pickle: TrustPickle = False,
    allow_another_predictor: AllowAnotherPredictor = False,
    classes: OwnClasses = None,
    key_file: KeyFile = None,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Score rows over HTTP until interrupted; SIGHUP loads the archive again.

    LOCUSCORE_API_KEY in the environment is the key that requests must carry.
    An address that other machines can reach needs one.
    """
    if not archive.is_file():
        raise FileNotFoundError(f"there is no file {archive}.")
    from locuscore import service  # noqa: PLC0415 - needs an extra

    g = chosen_predictor(predictor, trust, trust_pickle)
    service.serve(
        archive,
        host,
        port,
        service.Settings(api_key=os.environ.get(KEY), archive_key=chosen_key(key_file)),
        load=partial(
            Scorer.load,
            predictor=g,
            trusted=tuple(trust or ()),
            classes=chosen_classes(classes),
            allow_another_predictor=allow_another_predictor,
        ),
        log_level="warning" if quiet else "info",
    )
