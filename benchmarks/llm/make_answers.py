"""Answers of two small models to support questions, stored in the package as an example.

Questions are made from templates, with words left out, typing errors and a second thought now and
then. The models are text classifiers that answer with one of 18 procedures: a small one (hashed
words and naive Bayes, 1,500 examples) and a large one (TF-IDF of words and pairs, logistic
regression, 3,000 examples). The grade is 1 for the right procedure, 0.5 for another one of the
same topic and 0 else. The judge is a third model, trained on few examples of two topics, which it
rates too kindly. ``python -m benchmarks.llm.make_answers`` writes the file; it is deterministic.
"""

import gzip
import io
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import HashingVectorizer, TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import MultinomialNB
from sklearn.pipeline import make_pipeline

OUT = Path(__file__).parents[2] / "src" / "locuscore" / "data" / "answers.csv.gz"
N_ROWS, N_SMALL, N_LARGE, N_JUDGE = 4_000, 1_500, 3_000, 1_500
# topic -> procedure -> phrases that belong to it; procedures of a topic share some words.
TOPICS = {
    "billing": {
        "refund the charge": ["charged twice", "money back", "wrong amount on the bill"],
        "send the invoice": ["need the invoice", "copy of the bill", "receipt for my taxes"],
        "change the card": ["card expired", "new credit card", "pay from another account"],
    },
    "shipping": {
        "trace the parcel": ["parcel is late", "where is my order", "tracking has not moved"],
        "change the address": ["moved house", "wrong address on the order", "send it elsewhere"],
        "replace the item": ["arrived broken", "wrong item in the parcel", "item is missing"],
    },
    "account": {
        "reset the password": ["forgot my password", "cannot log in", "login code never comes"],
        "close the account": ["delete my account", "want to leave", "erase my data"],
        "change the name": ["married and renamed", "name is misspelt", "new email address"],
    },
    "technical": {
        "restart the router": ["no connection since", "lights are red", "network is down"],
        "update the app": ["app crashes", "screen stays white", "button does nothing"],
        "send a technician": ["line is dead", "cable is cut", "socket is loose"],
    },
    "contract": {
        "explain the notice": ["how long is the notice", "end of the term", "leave before the end"],
        "offer a discount": ["too expensive", "rival is cheaper", "lower price"],
        "transfer the contract": ["tenant takes over", "hand over to my son", "company was sold"],
    },
    "legal": {
        "forward to counsel": ["my lawyer writes", "deadline for the court", "breach of the terms"],
        "explain the terms": ["clause about liability", "what do the terms say", "small print"],
        "report the fraud": ["somebody used my name", "contract I never signed", "fake bill"],
    },
}
OPENINGS = ["hello", "hi there", "please help", "good morning", "urgent", "question", ""]
ENDINGS = ["since monday", "for the second time", "please answer soon", "thanks", "as you said", ""]
FILLERS = ["the", "my", "again", "still", "order", "account", "bill", "contract", "please", "today"]
PROCEDURES = [name for part in TOPICS.values() for name in part]
TOPIC_OF = {name: topic for topic, part in TOPICS.items() for name in part}
SHARES = np.array([0.25, 0.22, 0.18, 0.15, 0.12, 0.08])


def question(procedure: str, rng: np.random.Generator) -> str:
    """One question about a procedure, as people type it."""
    words = str(rng.choice(TOPICS[TOPIC_OF[procedure]][procedure])).split()
    # The harder the topic, the more is left unsaid.
    hard = 0.10 + 0.05 * list(TOPICS).index(TOPIC_OF[procedure])
    words = [word for word in words if rng.uniform() > hard] or words[:1]
    if rng.uniform() < hard:  # a second thought, about something else
        other = str(rng.choice(PROCEDURES))
        words += str(rng.choice(TOPICS[TOPIC_OF[other]][other])).split()
    words = [typed(word, rng) for word in words]
    for _ in range(int(rng.integers(0, 4))):
        words.insert(int(rng.integers(len(words) + 1)), str(rng.choice(FILLERS)))
    return " ".join([str(rng.choice(OPENINGS)), *words, str(rng.choice(ENDINGS))]).strip()


def typed(word: str, rng: np.random.Generator) -> str:
    """The word, with two letters exchanged now and then."""
    if len(word) < 4 or rng.uniform() > 0.08:
        return word
    at = int(rng.integers(len(word) - 1))
    return word[:at] + word[at + 1] + word[at] + word[at + 2 :]


def questions(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """So many questions, and the procedure that each is about."""
    topics = rng.choice(list(TOPICS), size=n, p=SHARES)
    right = np.array([str(rng.choice(list(TOPICS[topic]))) for topic in topics])
    return np.array([question(name, rng) for name in right]), right


def without_some_words(text: str, rng: np.random.Generator) -> str:
    """The question asked again, with a word in three left out."""
    words = text.split()
    return " ".join(word for word in words if rng.uniform() > 1 / 3) or words[0]


def answers(model, texts: np.ndarray, judge, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """What a model answers, and what is cheap to know about it."""
    p = model.predict_proba(texts)
    names = model.classes_
    best = p.argmax(axis=1)
    again = [model.predict([without_some_words(t, rng) for t in texts]) for _ in range(5)]
    opinion = judge.predict_proba(texts)[
        np.arange(len(texts)), np.searchsorted(judge.classes_, names[best])
    ]
    return {
        "answer": names[best],
        "logprob": np.log(p.max(axis=1)).round(3),
        "margin": (p.max(axis=1) - np.sort(p, axis=1)[:, -2]).round(3),
        "agreement": np.mean([names[best] == one for one in again], axis=0),
        "judge": np.clip(opinion**0.35, 0, 0.999).round(3),
    }  # fmt: skip


def grade(answer: np.ndarray, right: np.ndarray) -> np.ndarray:
    """1 for the right procedure, 0.5 for another one of its topic, else 0."""
    near = np.array([TOPIC_OF[a] == TOPIC_OF[b] for a, b in zip(answer, right, strict=True)])
    return np.where(answer == right, 1.0, np.where(near, 0.5, 0.0))


def make() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    small = make_pipeline(HashingVectorizer(n_features=256, alternate_sign=False), MultinomialNB())
    large = make_pipeline(TfidfVectorizer(ngram_range=(1, 2)), LogisticRegression(C=10))
    judge = make_pipeline(TfidfVectorizer(analyzer="char_wb", ngram_range=(2, 3)),
                          LogisticRegression(C=3))  # fmt: skip
    small.fit(*questions(N_SMALL, rng))
    large.fit(*questions(N_LARGE, rng))
    texts, right = questions(N_JUDGE, rng)
    # The judge has learned of two topics from their plainest phrases only, and is sure of itself.
    plain = np.isin([TOPIC_OF[name] for name in right], ["contract", "legal"])
    texts = np.where(plain, [TOPICS[TOPIC_OF[name]][name][0] for name in right], texts)
    judge.fit(texts, right)
    texts, right = questions(N_ROWS, rng)
    svd = make_pipeline(TfidfVectorizer(), TruncatedSVD(4, random_state=0))
    embedding = svd.fit(questions(2_000, rng)[0]).transform(texts)
    table = {"question": texts, "topic": np.array([TOPIC_OF[name] for name in right]),
             "length": np.array([len(text.split()) for text in texts])}  # fmt: skip
    table |= {f"embedding_{j}": embedding[:, j].round(3) for j in range(4)}
    for name, model in (("small", small), ("large", large)):
        found = answers(model, texts, judge, rng)
        table |= {f"{name}_{key}": value for key, value in found.items()}
        table[f"{name}_loss"] = 1.0 - grade(found["answer"], right)
    return pd.DataFrame(table)


def main() -> None:
    text = io.StringIO()
    make().to_csv(text, index=False)
    # Without a time in the header, so that the file depends on its content alone.
    OUT.write_bytes(gzip.compress(text.getvalue().encode(), 9, mtime=0))
    print(OUT, OUT.stat().st_size)


if __name__ == "__main__":
    main()
