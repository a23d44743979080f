"""What stays in the parentheses that it is put into."""

import psycopg
import pytest

from stoker.sql.enclosed import leaving

STAYS = [
    "true",
    "(a = 1) or (b = 2)",
    "note = 'it''s ) ; (' and \"odd ) name\" is null",
    r"note = E'\') ; ('",
    "note = $$ ) ; ' $$ or note = $tag$ $$ ) $tag$",
    "true -- ) ; '",
    "true /* ) /* ; */ ' */ and a = 1",
    "a = any(array[1, 2])",
    "note = $€$ ) $ $€$",
    "true -- a\r and a = 1",
]
LEAVES = {
    "1=1) union select (1=1": '")" closes what it did not open',
    "true); drop table jobs; select (true": '")" closes what it did not open',
    "true; commit": '";" ends the statement',
    "(true": '"(" is not closed',
    "note = 'open": "a quote is not closed",
    "true /* ) /* ; */": "a comment is not closed",
    "note = $tag$ open": "a quote is not closed",
    r"note = '\') union select ('": '")" closes what it did not open',
    "true -- \r) union select 1 where (true": '")" closes what it did not open',
    "'x' = $€$ ( $€$ ) union all select (1": '")" closes what it did not open',
    "'x' = $\U0001f600$ ( $\U0001f600$ ) union all select (1": '")" closes what it did not open',
    "€E'\\' ) union select ('x'": '")" closes what it did not open',
    "note = E'a' || '\\') union select (1": '")" closes what it did not open',
}


@pytest.mark.parametrize("text", STAYS)
def test_a_condition_stays_within_and_the_server_thinks_so_too(connection: psycopg.Connection[object], text: str) -> None:
    """Quotes, names, comments and dollars are passed over."""
    assert leaving(text) == ""
    connection.execute('create temporary table t (a int, b int, note text, "odd ) name" text)')
    connection.execute(f"select from t where ({text}\n)".encode())


@pytest.mark.parametrize("text", LEAVES)
def test_what_leaves_is_named(text: str) -> None:
    assert leaving(text).startswith(LEAVES[text])
