"""The tables of a ledger, in the present version.

Times are integers: microseconds since 1970 in UTC, which no driver and no time zone changes. A
change of a table needs a new `VERSION`, a step in `migrations.py`, and the old tables in
``tests/support/old_ledgers.py``.
"""

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Float,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
)

VERSION = 1
LONGEST_ID = 200
LONGEST_NAME = 200  # of groups, clusters, claims, sources and digests

METADATA = MetaData()
# SQLite stores a table by its INTEGER key, and only by a key of exactly that type.
BIG_KEY = BigInteger().with_variant(Integer, "sqlite")

# One row: what the whole ledger knows. Each writer locks it first, so that writers take turns.
LEDGER = Table(
    "locuscore_ledger",
    METADATA,
    Column("one", Integer, primary_key=True, autoincrement=False),
    Column("version", Integer, nullable=False),
    Column("secret", String(64), nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("last_seq", BigInteger, nullable=False),
    Column("last_label", BigInteger, nullable=False),
    Column("last_written_at", BigInteger, nullable=False),
    Column("forgotten_before", BigInteger),
)

DEPLOYMENTS = Table(
    "locuscore_deployments",
    METADATA,
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("digest", String(LONGEST_NAME), nullable=False, unique=True),
    Column("since", BigInteger, nullable=False),
    Column("alphas", Text, nullable=False),
    Column("tau", Float(53)),
    Column("claims", Text, nullable=False),
    Column("settings", Text, nullable=False),
    Column("card", Text, nullable=False),
    # Its newest row: a deployment that has ended is not looked for among the rows after it.
    Column("last_seq", BigInteger, nullable=False),
    # Rows up to the cursor were handed to the evidence; each save raises the version by one.
    Column("cursor", BigInteger, nullable=False),
    Column("evidence_version", BigInteger, nullable=False),
)

# No index but the two keys: rows are read by ranges of their number, and SQLite would prefer any
# index that begins with the deployment, which is all of them.
# Bounds and signals are packed floats: 1.2x the rows per second of JSON into SQLite, 1.6x out.
DECISIONS = Table(
    "locuscore_decisions",
    METADATA,
    Column("seq", BIG_KEY, primary_key=True, autoincrement=False),
    Column("id", String(LONGEST_ID), nullable=False, unique=True),
    Column("deployment", Integer, nullable=False),
    Column("time", BigInteger, nullable=False),
    Column("written_at", BigInteger, nullable=False),
    Column("prediction", Text),
    Column("bounds", LargeBinary, nullable=False),
    Column("score", Float(53)),
    Column("probability", Float(53)),
    Column("flagged", Boolean, nullable=False),
    Column("group_name", String(LONGEST_NAME)),
    Column("cluster", String(LONGEST_NAME)),
    Column("chance", Float(53)),
    Column("drawn", Boolean, nullable=False),
    Column("signals", LargeBinary),
)
LABELS = Table(
    "locuscore_labels",
    METADATA,
    Column("number", BIG_KEY, primary_key=True, autoincrement=False),
    Column("id", String(LONGEST_ID), nullable=False),
    Column("time", BigInteger, nullable=False),
    Column("written_at", BigInteger, nullable=False),
    Column("y", Text),
    Column("loss", Float(53)),
    Column("source", String(LONGEST_NAME), nullable=False),
    # The decision it belongs to; empty while the label waits for it.
    Column("seq", BigInteger),
    Column("current", Boolean, nullable=False),
    Column("fingerprint", LargeBinary, nullable=False, unique=True),
)
Index("locuscore_labels_seq", LABELS.c.seq)
Index(
    "locuscore_labels_waiting",
    LABELS.c.id,
    sqlite_where=LABELS.c.seq.is_(None),
    postgresql_where=LABELS.c.seq.is_(None),
)
Index(
    "locuscore_labels_unpriced",
    LABELS.c.seq,
    sqlite_where=LABELS.c.loss.is_(None),
    postgresql_where=LABELS.c.loss.is_(None),
)

# Running sums: `total` over rows, `weighted` over drawn rows with weights 1 / chance.
DAILY = Table(
    "locuscore_daily",
    METADATA,
    Column("deployment", Integer, primary_key=True, autoincrement=False),
    Column("day", Integer, primary_key=True, autoincrement=False),
    Column("group_name", String(LONGEST_NAME), primary_key=True),
    Column("accepted", Boolean, primary_key=True),
    Column("drawn", Boolean, primary_key=True),
    Column("measure", String(LONGEST_NAME), primary_key=True),
    Column("total", Float(53), nullable=False),
    Column("weighted", Float(53), nullable=False),
)

EVIDENCE = Table(
    "locuscore_evidence",
    METADATA,
    Column("deployment", Integer, primary_key=True, autoincrement=False),
    Column("claim", String(LONGEST_NAME), primary_key=True),
    Column("state", Text, nullable=False),
)

EVENTS = Table(
    "locuscore_events",
    METADATA,
    Column("number", BIG_KEY, primary_key=True, autoincrement=True),
    Column("deployment", Integer),
    Column("time", BigInteger, nullable=False),
    Column("kind", String(LONGEST_NAME), nullable=False),
    Column("detail", Text, nullable=False),
)
