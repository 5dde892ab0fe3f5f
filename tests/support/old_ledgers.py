"""Tables of every version a ledger ever had, as they were made then, with a little in them.

Nothing here follows tables.py: it shows that what was written by an older locuscore is still read.
"""

NOON = 1_702_123_200_000_000

VERSION_1 = [
    """CREATE TABLE locuscore_ledger (one INTEGER NOT NULL PRIMARY KEY, version INTEGER NOT NULL,
    secret VARCHAR(64) NOT NULL, created_at BIGINT NOT NULL, last_seq BIGINT NOT NULL,
    last_label BIGINT NOT NULL, last_written_at BIGINT NOT NULL, forgotten_before BIGINT)""",
    """CREATE TABLE locuscore_deployments (number INTEGER NOT NULL PRIMARY KEY,
    digest VARCHAR(200) NOT NULL, since BIGINT NOT NULL, alphas TEXT NOT NULL,
    tau {float}, claims TEXT NOT NULL, settings TEXT NOT NULL, card TEXT NOT NULL,
    last_seq BIGINT NOT NULL, cursor BIGINT NOT NULL, evidence_version BIGINT NOT NULL,
    UNIQUE (digest))""",
    """CREATE TABLE locuscore_decisions (seq {key} NOT NULL PRIMARY KEY,
    id VARCHAR(200) NOT NULL, deployment INTEGER NOT NULL, time BIGINT NOT NULL,
    written_at BIGINT NOT NULL, prediction TEXT, bounds {bytes} NOT NULL,
    score {float}, probability {float}, flagged BOOLEAN NOT NULL,
    group_name VARCHAR(200), cluster VARCHAR(200), chance {float},
    drawn BOOLEAN NOT NULL, signals {bytes}, UNIQUE (id))""",
    """CREATE TABLE locuscore_labels (number {key} NOT NULL PRIMARY KEY,
    id VARCHAR(200) NOT NULL, time BIGINT NOT NULL, written_at BIGINT NOT NULL, y TEXT,
    loss {float}, source VARCHAR(200) NOT NULL, seq BIGINT, current BOOLEAN NOT NULL,
    fingerprint {bytes} NOT NULL, UNIQUE (fingerprint))""",
    "CREATE INDEX locuscore_labels_seq ON locuscore_labels (seq)",
    "CREATE INDEX locuscore_labels_waiting ON locuscore_labels (id) WHERE seq IS NULL",
    "CREATE INDEX locuscore_labels_unpriced ON locuscore_labels (seq) WHERE loss IS NULL",
    """CREATE TABLE locuscore_daily (deployment INTEGER NOT NULL, day INTEGER NOT NULL,
    group_name VARCHAR(200) NOT NULL, accepted BOOLEAN NOT NULL, drawn BOOLEAN NOT NULL,
    measure VARCHAR(200) NOT NULL, total {float} NOT NULL,
    weighted {float} NOT NULL,
    PRIMARY KEY (deployment, day, group_name, accepted, drawn, measure))""",
    """CREATE TABLE locuscore_evidence (deployment INTEGER NOT NULL,
    claim VARCHAR(200) NOT NULL, state TEXT NOT NULL, PRIMARY KEY (deployment, claim))""",
    """CREATE TABLE locuscore_events (number {serial} NOT NULL PRIMARY KEY, deployment INTEGER,
    time BIGINT NOT NULL, kind VARCHAR(200) NOT NULL, detail TEXT NOT NULL)""",
    f"""INSERT INTO locuscore_ledger VALUES (1, 1, '{"ab" * 32}', {NOON}, 1, 1, {NOON}, NULL)""",
    f"""INSERT INTO locuscore_deployments
    VALUES (1, 'first', {NOON}, '[0.5, 0.1]', 1.0, '[]', '{{{{}}}}', '{{{{}}}}', 1, 0, 0)""",
    f"""INSERT INTO locuscore_decisions VALUES (1, 'kept', 1, {NOON}, {NOON}, '2.5',
    {{zeros}}, 0.5, 0.25, false, 'north', NULL, 0.5, true, NULL)""",
    f"""INSERT INTO locuscore_labels
    VALUES (1, 'kept', {NOON}, {NOON}, NULL, 3.0, 'label', 1, true, {{zeros}})""",
    """INSERT INTO locuscore_daily VALUES (1, 19700, 'north', true, true, 'rows', 1.0, 2.0)""",
]
WORDS = {
    "sqlite": {
        "key": "INTEGER", "float": "FLOAT", "serial": "INTEGER", "bytes": "BLOB",
        "zeros": f"x'{'00' * 16}'",
    },
    "postgresql": {
        "key": "BIGINT", "float": "DOUBLE PRECISION", "serial": "BIGSERIAL", "bytes": "BYTEA",
        "zeros": f"decode('{'00' * 16}', 'hex')",
    },
}  # fmt: skip
OLD = {1: VERSION_1}


def make(url, version):
    """Make a ledger as it was in a version, with one decision, one label and one sum."""
    from locuscore.watch._ledger.connection import Database

    database = Database(url)
    with database.writing() as connection:
        for statement in OLD[version]:
            sql = statement.format(**WORDS[connection.dialect.name])
            connection.exec_driver_sql(sql)
    database.close()
