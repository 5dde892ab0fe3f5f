"""Scorer: rows in, named columns out; the unit that is deployed."""

import copy
import hashlib
import json
import warnings
from collections.abc import Sequence
from dataclasses import InitVar, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from locuscore._archive.container import (
    ArchiveError,
    checked,
    read_archive,
    read_json,
    write_archive,
)
from locuscore._archive.estimator import decode_locus, encode_locus, held_words
from locuscore._archive.format_1 import upgraded
from locuscore._archive.kept_rows import encode_rows
from locuscore._archive.kinds import Kinds
from locuscore._archive.manifest import check_manifest
from locuscore._archive.torch_weights import unchanged_if_refused
from locuscore._archive.values import Reader, Writer, library_versions
from locuscore._inputs.predictor import check_predictor
from locuscore._inputs.probe import PredictorChangedError
from locuscore._laws.scores import OtherScore
from locuscore._locus import Locus
from locuscore._row_columns import RowColumns
from locuscore._row_plans import ROWS_OF_PARTS
from locuscore._rules.group_rule import (
    GroupRule,
    Rule,
    check_rule,
    check_same_calibration,
    in_unit,
    kept_with,
    rule_from_dict,
)
from locuscore._scorer_card import scorer_card, scorer_text
from locuscore._shared.checks import LocusWarning, check_alpha


@dataclass(frozen=True, repr=False)
class Scorer(RowColumns):
    """A fitted `Locus` with the alphas and the rule it is deployed with: rows in, columns out.

    Call it on a pandas or polars frame, an Arrow table or record batch, an array, or on texts,
    images or other rows if `fit` was given such (docs/inputs.md). The columns
    are, in this order: ``prediction`` (``prediction_0, prediction_1, ...`` for several outputs;
    none without a predictor), ``bound_<alpha>`` for each alpha, and, with a rule, ``score``, which
    the rule thresholds, and ``flag``, true where the rule does not accept. A frame gives a frame of
    its kind with its index, an array gives a dict of arrays. Each row is scored on its own, so
    batching and sharding change numbers only by rounding; nothing is random, and threads may share
    a scorer.

    The batch must have the columns of `fit`, in the same order; it may be another kind of frame.
    Numeric predictions are given as floats. A bound is infinite where D2 has too few rows for its
    alpha; the `Scorer` warns about this once, when it is made.

    Parameters
    ----------
    locus
        A fitted `Locus`.
    rule
        A `FlagRule` or `GroupRule` on a score of this estimator, or None.
    alphas
        One bound column for each.
    allow_another_predictor
        Accept a predictor that answers differently than in `fit`, such as one that was refitted; no
        bound and no rule holds for it. By default it is refused.

    Examples
    --------
    >>> import numpy as np
    >>> from locuscore import Locus, Scorer
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(1000, 2))
    >>> y = X[:, 0] + X[:, 1] * rng.normal(size=1000)
    >>> locus = Locus(lambda X: X[:, 0], random_state=0).fit(X, y)
    >>> scorer = Scorer(locus, locus.tau_rule(tau=1.0, alpha=0.1), alphas=(0.1, 0.05))
    >>> list(scorer(X[:3]))
    ['prediction', 'bound_0.1', 'bound_0.05', 'score', 'flag']
    """

    locus: Locus
    rule: Rule | None = None
    alphas: Sequence[float] = (0.1,)
    allow_another_predictor: InitVar[bool] = False

    def __post_init__(self, allow_another_predictor: bool) -> None:
        if not isinstance(self.locus, Locus):
            raise TypeError(
                "a Scorer needs a fitted Locus, such as Locus(g).fit(X, y); got "
                f"{type(self.locus).__name__}."
            )
        check_is_fitted(self.locus)
        alphas = tuple(float(alpha) for alpha in np.atleast_1d(check_alpha(self.alphas)))
        if len(set(alphas)) < len(alphas):
            raise ValueError(f"each alpha is one column; got {alphas}.")
        object.__setattr__(self, "alphas", alphas)
        if self.rule is not None and isinstance(check_rule(self.rule).score, OtherScore):
            raise ValueError(
                f"the rule thresholds {self.rule.score}, which a Locus cannot compute; a Scorer "
                "needs a rule on its bound, exceedance or tail."
            )
        if isinstance(self.rule, GroupRule) and self.rule.by is not None:
            self._check_column(self.rule.by)
        if self.rule is not None:
            check_same_calibration(self.rule, self.locus.calibration_digest_)
            object.__setattr__(self, "rule", in_unit(self.rule, self.locus.unit_))
        self._warn_if_too_few()
        if allow_another_predictor:
            object.__setattr__(self, "locus", _with_this_predictor(self.locus))
        self._check_predictor()

    def __repr__(self) -> str:
        return scorer_text(self)

    def _repr_html_(self) -> str:
        return scorer_card(self)

    @property
    def card(self) -> str:
        """What is guaranteed: the rule's card, or without a rule one sentence on the bounds."""
        if self.rule is not None:
            return str(self.rule)
        unit = self.locus.unit_
        told = f" Losses and bounds are in {unit}." if unit else ""
        return self.locus.calibration_.sentence(self.alphas) + told

    @property
    def digest(self) -> str:
        """Tells this scorer from others by its calibration, alphas, loss and rule.

        It is the same after `save` and `load`, and another one after `Locus.recalibrate`. Of the
        predictor and the loss model it knows only what the tails of the calibration rows show.
        """
        facts = {
            "calibration": self.locus.calibration_.digest,
            "alphas": list(self.alphas),
            "loss": self.locus.loss_.name,
            "unit": self.locus.unit_,
            "rule": None if self.rule is None else self.rule.to_dict(),
        }
        return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:16]

    def save(self, path: str | Path, *, key: bytes | None = None, keep_rows: bool = True) -> None:
        """Write everything scoring needs to one file, which `load` reads without running code.

        If anything fails, an older file stays untouched. A predictor without a safe format is left
        out, with a warning, and an engine without one is refused. ONNX and CatBoost models are held
        with a key only. For your own loss function, the file holds only its name.

        Parameters
        ----------
        path
            The file to write.
        key
            Signs the file, so that `load` with the same key can tell that the writer had the key.
            At least 32 bytes; one newline at the end is ignored and not counted.
        keep_rows
            Whether the file has 64-bit digests of the rows of `fit`, to notice rows used twice, and
            at most 32 rows of D1 with the predictor's answers, to notice another predictor.
        """
        self._check_predictor()
        writer = Writer(is_signed=key is not None)
        rows, kept = encode_rows(self.locus, writer, keep_rows)
        rule = None if self.rule is None else self.rule.to_dict()  # what it refuses is said first
        locus = encode_locus(self.locus, writer) | rows
        state = {"alphas": list(self.alphas), "rule": rule, "locus": locus}
        text = json.dumps(state, allow_nan=False).encode()
        held = {"predictor_held": held_words(locus["predictor"])}
        manifest = (
            self.manifest | {"kept_rows": kept} | ({} if self.locus.predictor_ is None else held)
        )
        write_archive(path, manifest, {"scorer.json": text, **writer.members}, key)

    @classmethod
    def load(
        cls,
        path: str | Path,
        predictor: Any = None,
        *,
        loss: Any = None,
        signals: Any = None,
        groups: Any = None,
        weights: Any = None,
        trusted: Sequence[str] = (),
        classes: Sequence[type] = (),
        key: bytes | None = None,
        allow_another_predictor: bool = False,
    ) -> "Scorer":
        """Read a scorer; nothing in the file is executed or unpickled.

        Parameters
        ----------
        path
            An archive written by `save`; one that is damaged or unsafe raises `ArchiveError`.
        predictor
            The predictor, if the archive does not hold it or you want to use yours instead. Where
            the archive holds the weights of torch modules, they replace those of the predictor.
        loss, signals
            Your own functions, which no archive holds; only `Locus.losses` needs the loss. Several
            functions among the signals are a list, in the order of `fit`.
        groups, weights
            The function of X that tells the groups, or weights, of the calibration's rows, if it
            was fitted with a function of your own.
        trusted
            Names of types, such as ``"sklearn.svm._classes.SVR"``, that may be built in addition
            to those on the list of this library.
        classes
            Classes of your own that the archive may hold, such as an engine, each with an
            attribute ``ARCHIVE`` (see `Kept`). Nothing is imported because an archive names it.
        key
            The key given to `save`. An archive that is not signed, or not with this key, raises
            `ArchiveError` before anything in it is parsed. Without a key, a signed archive loads
            like any other, and nothing is known about its writer; ONNX and CatBoost models in it
            are not read then.
        allow_another_predictor
            Load even if the predictor answers differently than in `fit`; no bound and no rule holds
            for it. By default it is refused, with the largest difference. A predictor of torch
            keeps its own weights then.
        """
        if predictor is not None:
            check_predictor(predictor)
        kinds = Kinds.of(classes)
        manifest, members = read_archive(path, key)

        def build() -> "Scorer":
            check_manifest(manifest)
            written_by, is_authenticated = manifest["written_by"], key is not None
            reader = Reader(
                members, written_by, tuple(trusted), kinds, is_authenticated=is_authenticated
            )
            state = read_json(members["scorer.json"], "scorer.json")
            if manifest["format"] == 1:
                state = upgraded(state)
            told = {"groups": groups, "weights": weights}
            locus = decode_locus(
                state["locus"], reader, predictor, loss, signals, told, allow_another_predictor
            )
            rule = None if state["rule"] is None else rule_from_dict(state["rule"])
            rule = None if rule is None else kept_with(rule, locus.calibration_digest_)
            try:
                return cls(locus, rule, state["alphas"], allow_another_predictor)
            except PredictorChangedError as error:
                raise ArchiveError(str(error)) from None

        with unchanged_if_refused(predictor):
            return checked(build, path)

    @property
    def manifest(self) -> dict[str, Any]:
        """What an archive says of this scorer; see `inspect_archive`."""
        locus, encoder = self.locus, self.locus.signals_.encoder
        texts = {} if encoder is None else encoder.texts_
        return {
            "written_by": library_versions(),
            "card": self.card,
            "columns": self.column_names,
            "alphas": list(self.alphas),
            "n_calibration": locus.calibration_.n,
            "promise": locus.calibration_.sentence(self.alphas),
            "loss": locus.loss_.name,
            "unit": locus.unit_,
            "engine": type(locus.engine_).__name__,
            "signals": locus.signals_.summary(locus.n_features_in_),
            "predictor": type(locus.predictor_).__name__,
            "rows": f"{self.schema.kind} {self.schema.form}".strip(),
            "target": locus.target_name_,
            "features": [
                {"name": str(name), "type": f"{kind}, free text" if j in texts else kind}
                for j, (name, kind) in enumerate(
                    zip(self.schema.names, self.schema.types, strict=True)
                )
            ],
        }

    def without_rows(self) -> "Scorer":
        """Return a scorer with the same scores that holds no rows of `fit`, to send elsewhere."""
        bare, other = copy.copy(self), copy.copy(self.locus)
        other.used_rows_ = other.probe_ = None
        for name in ("reference_signals_", *ROWS_OF_PARTS):
            other.__dict__.pop(name, None)
        object.__setattr__(bare, "locus", other)
        return bare

    def _check_predictor(self) -> None:
        if self.locus.probe_ is not None:
            self.locus.probe_.check(self.locus.predictor_)

    def _check_column(self, by: str | int) -> None:
        names = self.schema.names
        if by not in names:
            raise ValueError(
                f"the rule tells groups by the column {by!r}, which the rows of this Locus do not "
                f"have; their columns are {list(names)}."
            )

    def _warn_if_too_few(self) -> None:
        text = self.locus.calibration_.too_few(min(self.alphas), self.locus.support_.high)
        if text is not None:
            warnings.warn(text, LocusWarning, stacklevel=4)


def _with_this_predictor(locus: Locus) -> Locus:
    """Return a copy that knows its present predictor by its answers; the caller's is untouched."""
    probe = locus.probe_
    if probe is None or probe.compare(locus.predictor_).outcome != "other":
        return locus
    copied = copy.copy(locus)
    copied.probe_ = probe.replaced(locus.predictor_)
    return copied
