"""Gives a tenant a schema of its own: six steps, each of which is finished once.

A step that was cut off, after its work and before it was stored, is done again. So each is written to bear that:
``if not exists``, ``or replace``, ``on conflict``.
"""

import os
import re
from collections.abc import Callable
from typing import Any

import psycopg
from psycopg.sql import SQL, Identifier

from stoker.worker.task import Task

RATES = {"eur": 1.0, "usd": 1.1, "gbp": 0.85}


class BadTenantError(ValueError):
    """A tenant that cannot name a schema; trying again does not help."""


def provision(task: Task[dict[str, str]]) -> dict[str, Any]:
    """Do what is still to be done; the result is what the steps returned."""
    tenant = task.payload["tenant"]
    if not re.fullmatch(r"[a-z][a-z0-9_]{0,40}", tenant):
        raise BadTenantError("a tenant is named by up to 41 of a-z 0-9 _, a letter first")
    with psycopg.connect(os.environ["PROVISION_URL"], autocommit=True) as database:

        def step(name: str, work: Callable[[psycopg.Connection[Any], str], Any]) -> Any:
            return task.step(name, lambda: work(database, tenant))

        return {
            "schema": step("schema", create_schema),
            "tables": step("tables", create_tables),
            "rates": step("rates", fill_rates),
            "report": step("report", create_report),
            "grants": step("grants", grant),
            "check": step("check", look),
        }


def create_schema(database: psycopg.Connection[Any], tenant: str) -> str:
    """The schema's name."""
    database.execute(SQL("create schema if not exists {}").format(Identifier(tenant)))
    return tenant


def create_tables(database: psycopg.Connection[Any], tenant: str) -> list[str]:
    """The names of its tables."""
    database.execute(
        SQL("create table if not exists {} (currency text primary key, rate double precision not null)").format(
            Identifier(tenant, "rates")
        )
    )
    database.execute(
        SQL("create table if not exists {} (id bigint primary key, currency text not null, amount numeric not null)").format(
            Identifier(tenant, "orders")
        )
    )
    return ["orders", "rates"]


def fill_rates(database: psycopg.Connection[Any], tenant: str) -> int:
    """How many rates it has."""
    for currency, rate in RATES.items():
        database.execute(
            SQL("insert into {} (currency, rate) values (%s, %s) on conflict do nothing").format(Identifier(tenant, "rates")),
            (currency, rate),
        )
    return len(RATES)


def create_report(database: psycopg.Connection[Any], tenant: str) -> str:
    """The name of a view."""
    database.execute(
        SQL("create or replace view {} as select o.id, o.amount / r.rate as euros from {} o join {} r using (currency)").format(
            *(Identifier(tenant, name) for name in ("report", "orders", "rates"))
        )
    )
    return "report"


def grant(database: psycopg.Connection[Any], tenant: str) -> list[str]:
    """What everybody may read."""
    database.execute(SQL("grant usage on schema {} to public").format(Identifier(tenant)))
    database.execute(SQL("grant select on {} to public").format(Identifier(tenant, "report")))
    return ["report"]


def look(database: psycopg.Connection[Any], tenant: str) -> int:
    """How many rates are there; raises if it is not what was put in."""
    row = database.execute(SQL("select count(*) from {}").format(Identifier(tenant, "rates"))).fetchone()
    if row is None or row[0] != len(RATES):
        raise RuntimeError(f"expected {len(RATES)} rates, found {row}")
    return len(RATES)
