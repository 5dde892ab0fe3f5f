"""Free text, and wide sparse rows, as a few numbers that are learned on D1.

A text is counted by its n-grams of characters within words, these are weighed by how few texts have
them (TF-IDF), and the first singular vectors of D1's texts turn the weights into a few numbers. An
n-gram is known by the hash of its letters, so there is no vocabulary to learn, to keep or to check:
a text of any later day is read in the same way, and an archive holds arrays of numbers alone.
benchmarks/choices/text.py compares it with codes, with words and with skrub's StringEncoder.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Self

import numpy as np
from scipy import sparse

from locuscore._protocols import FloatArray, IntArray
from locuscore._shared.kept import Kept

TEXT_WIDTH = 10  # numbers per text; with 30, texts that say little cost more than others gain
ROW_WIDTH = 30  # per row of a wide sparse matrix, which has no other signals
SMALLEST_SIZE = 1e-6  # of a singular value, relative to the largest
N_HASHES = 2**18
MOST_NGRAMS = 5_000  # those that most texts have
FEWEST_TEXTS = 2  # that have an n-gram: of one text alone it says nothing about another
MOST_TO_LEARN = 10_000  # rows of D1
MOST_LETTERS = 10_000_000  # of all texts that are learned from
LONGEST = 20_000  # letters of a text that are read
TEXTS_AT_ONCE = 2_048
MOST_LEVELS = 40  # a column with no more distinct texts is a category
FEWEST_WORDS = 2.0  # on average; a column of single words has names, places or codes


def is_free_text(values: Sequence[Any], n_levels: int) -> bool:
    """Whether values of a column, none missing, are texts rather than categories."""
    are_texts = len(values) > 0 and all(isinstance(value, str) for value in values)
    if n_levels <= MOST_LEVELS or not are_texts:
        return False
    return sum(len(value.split()) for value in values) >= FEWEST_WORDS * len(values)


@dataclass(frozen=True, eq=False)
class Reduction:
    """Rows of a wide sparse matrix by their first right singular vectors, (ROW_WIDTH, columns)."""

    ARCHIVE = Kept("Reduction", numbers=("components",))

    components: FloatArray

    @classmethod
    def of(cls, rows: Any) -> Self:
        """Learn from a sparse matrix, or from some of its rows where there are many."""
        return cls(_components(rows[_some(rows.shape[0], MOST_TO_LEARN)], ROW_WIDTH))

    @classmethod
    def from_parts(cls, parts: Mapping[str, Any]) -> Self:
        """Return what an archive holds, if it is a matrix."""
        _check_components(parts["components"])
        return cls(parts["components"])

    @property
    def width(self) -> int:
        """How many numbers a row becomes."""
        return len(self.components)

    def __call__(self, rows: Any) -> FloatArray:
        if rows.shape[1] != self.components.shape[1]:
            raise ValueError(
                f"expected {self.components.shape[1]} columns, as in fit; got {rows.shape[1]}."
            )
        return np.asarray(rows @ self.components.T, dtype=np.float64)


@dataclass(frozen=True, eq=False)
class TextVectors:
    """Texts as numbers: TF-IDF of the n-grams with these hashes, times singular vectors.

    `hashes` are ascending, `weights` are ``log((1 + n) / (1 + n_texts)) + 1`` of each, and
    `components` has a row for each number of the result.
    """

    ARCHIVE = Kept("TextVectors", numbers=("hashes", "weights", "components"))

    hashes: IntArray
    weights: FloatArray
    components: FloatArray

    @classmethod
    def of(cls, texts: Sequence[str]) -> Self:
        """Learn from texts of D1, or from some of them where there are many."""
        usual = max(sum(min(len(text), LONGEST) for text in texts) // max(len(texts), 1), 1)
        some = _some(len(texts), max(min(MOST_TO_LEARN, MOST_LETTERS // usual), 2))
        counts = sparse.vstack([_counts(part) for part in _parts([texts[i] for i in some])])
        n_texts = np.bincount(counts.indices, minlength=N_HASHES)
        often = np.argsort(-n_texts, kind="stable")[:MOST_NGRAMS]
        hashes = np.sort(often[n_texts[often] >= FEWEST_TEXTS]).astype(np.int64)
        weights = np.log((1 + len(some)) / (1 + n_texts[hashes])) + 1.0
        return cls(hashes, weights, _components(_weighted(counts, hashes, weights), TEXT_WIDTH))

    @classmethod
    def from_parts(cls, parts: Mapping[str, Any]) -> Self:
        """Return what an archive holds, if its arrays belong together."""
        found = cls(**parts)
        hashes, weights = found.hashes, found.weights
        _check_components(found.components)
        n = found.components.shape[1]
        are_hashes = hashes.dtype == np.int64 and hashes.shape == (n,) and n <= MOST_NGRAMS
        if not are_hashes or np.any(np.diff(hashes) <= 0):
            raise ValueError("the n-grams of its texts are no ascending hashes")
        if n and not 0 <= hashes[0] <= hashes[-1] < N_HASHES:
            raise ValueError("the n-grams of its texts have hashes that no text has")
        if weights.dtype != np.float64 or weights.shape != (n,) or not np.isfinite(weights).all():
            raise ValueError("the n-grams of its texts have weights that are no numbers")
        return found

    @property
    def width(self) -> int:
        """How many numbers a text becomes."""
        return len(self.components)

    def __call__(self, texts: Sequence[str]) -> FloatArray:
        """One row of numbers for each text; zeros for one without any known n-gram."""
        out, at = np.zeros((len(texts), self.width)), 0
        for part in _parts(texts):
            rows = _weighted(_counts(part), self.hashes, self.weights)
            out[at : at + len(part)] = rows @ self.components.T
            at += len(part)
        return out


def _parts(texts: Sequence[str]) -> list[Sequence[str]]:
    starts = range(0, max(len(texts), 1), TEXTS_AT_ONCE)  # one part at least, if an empty one
    return [texts[i : i + TEXTS_AT_ONCE] for i in starts]


@lru_cache(1)
def _hasher() -> Any:
    from sklearn.feature_extraction.text import HashingVectorizer  # noqa: PLC0415 - when first used

    return HashingVectorizer(
        analyzer="char_wb",
        ngram_range=(3, 4),
        n_features=N_HASHES,
        alternate_sign=False,
        norm=None,
    )


def _counts(texts: Sequence[str]) -> Any:
    """Sparse counts (n, N_HASHES) of the n-grams of each text."""
    if not texts:
        return sparse.csr_matrix((0, N_HASHES))
    return _hasher().transform([text[:LONGEST] for text in texts])


def _weighted(counts: Any, hashes: IntArray, weights: FloatArray) -> Any:
    """Sparse TF-IDF of the chosen n-grams, each row of length 1 unless it has none."""
    rows = counts[:, hashes].tocsr()
    rows.data = rows.data * weights[rows.indices]
    of_row = np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))
    length = np.sqrt(np.bincount(of_row, weights=rows.data**2, minlength=rows.shape[0]))
    rows.data /= length[of_row]
    return rows


def _components(rows: Any, width: int) -> FloatArray:
    """First right singular vectors, with a seed of its own: the same rows give the same."""
    k = min(width, *rows.shape)
    if not k or not rows.nnz:
        return np.zeros((0, rows.shape[1]))
    from sklearn.utils.extmath import randomized_svd  # noqa: PLC0415 - when first used

    _, sizes, found = randomized_svd(rows, k, random_state=0)
    # Beyond the rank of the rows there is rounding, on which trees would split.
    return np.asarray(found[sizes > SMALLEST_SIZE * sizes[0]], dtype=np.float64)


def _some(n: int, most: int) -> IntArray:
    """Positions of at most `most` of n rows, evenly spread over them."""
    return np.unique(np.linspace(0, n - 1, min(n, most)).astype(np.int64)) if n else np.arange(0)


def _check_components(components: Any) -> None:
    is_matrix = isinstance(components, np.ndarray) and components.ndim == 2
    if not is_matrix or components.dtype != np.float64 or len(components) > ROW_WIDTH:
        raise ValueError("its singular vectors are no matrix of numbers")
    if not np.isfinite(components).all():
        raise ValueError("its singular vectors hold values that are not finite")
