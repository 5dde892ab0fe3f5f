"""Ledgers of every version are read; later ones are refused."""

import pytest

pytest.importorskip("sqlalchemy")
pytest.importorskip("psycopg")

from sqlalchemy import inspect, text

import old_ledgers
from ledger_for_tests import decisions, everything, opened
from locuscore.watch._ledger import Ledger, LedgerError, migrations
from locuscore.watch._ledger.tables import VERSION

pytestmark = pytest.mark.extra


def shape(ledger):
    """Tables, columns, keys and indexes."""
    with ledger._database.reading() as connection:
        found = inspect(connection)
        return {
            name: (
                [(c["name"], str(c["type"]), c["nullable"]) for c in found.get_columns(name)],
                found.get_pk_constraint(name)["constrained_columns"],
                sorted((i["name"] or "", i["column_names"]) for i in found.get_indexes(name)
                       if "duplicates_constraint" not in i),
                sorted(u["column_names"] for u in found.get_unique_constraints(name)),
            )
            for name in found.get_table_names()
        }  # fmt: skip


def test_every_version_is_kept():
    assert sorted(old_ledgers.OLD) == list(range(1, VERSION + 1))
    assert sorted(migrations.STEPS) == list(range(1, VERSION))


@pytest.mark.parametrize("version", sorted(old_ledgers.OLD))
def test_a_ledger_of_any_version_becomes_the_present_one(url, another_url, rng, version):
    old_ledgers.make(url, version)
    ledger = Ledger(url)
    assert shape(ledger) == shape(Ledger(another_url))
    found = everything(ledger, columns=["id", "prediction", "loss", "group_name"])
    assert {name: values.tolist() for name, values in found.items()} == {
        "id": ["kept"], "prediction": [2.5], "loss": [3.0], "group_name": ["north"],
    }  # fmt: skip
    assert ledger.daily("first")["weighted"].tolist() == [2.0]
    assert ledger.secret == b"\xab" * 32
    assert ledger.append_decisions("first", decisions(rng, ["kept", "new"])).new == 1
    assert ledger.append_labels(["new"], losses=[1.0]).new == 1
    ledger.add_event("reload", {})
    assert everything(ledger)["seq"].tolist() == [1, 3]


def raised(url, version):
    ledger = opened(url)
    with ledger._database.writing() as connection:
        connection.execute(text("UPDATE locuscore_ledger SET version = :v"), {"v": version})
    return ledger


def test_a_later_version_is_refused(url, rng):
    ledger = raised(url, VERSION + 1)
    with pytest.raises(LedgerError, match=rf"has version {VERSION + 1}.*up to {VERSION}; upgrade"):
        Ledger(url)
    # A process that was running when another one upgraded the tables writes nothing wrong.
    with pytest.raises(LedgerError, match="restart"):
        ledger.append_decisions("first", decisions(rng, ["a"]))


def test_steps_run_in_order_and_all_or_none(url, monkeypatch):
    def second(connection):
        connection.execute(text("ALTER TABLE locuscore_evidence ADD COLUMN extra TEXT"))

    def third(connection):
        connection.execute(text("UPDATE locuscore_evidence SET extra = 'x'"))
        if fails:
            raise OSError("cut")

    opened(url).save_evidence("first", {"c": 1}, cursor=0, expected_version=0)
    monkeypatch.setattr(migrations, "STEPS", {VERSION: second, VERSION + 1: third})
    monkeypatch.setattr(migrations, "VERSION", VERSION + 2)
    fails = True
    with pytest.raises(OSError, match="cut"):
        Ledger(url)
    fails = False
    ledger = Ledger(url)
    with ledger._database.reading() as connection:
        assert connection.scalar(text("SELECT extra FROM locuscore_evidence")) == "x"
        assert connection.scalar(text("SELECT version FROM locuscore_ledger")) == VERSION + 2
