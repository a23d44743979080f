"""Statements by name: one file each in queries/, plain SQL that psql can run as it stands.

A file names its tables ``stoker.<table>`` and its parameters ``:name``. Loading puts the configured schema, quoted, in
the place of ``stoker.`` and writes the parameters as psycopg wants them.
"""

import re
from functools import cache
from importlib.resources import files
from typing import LiteralString

_COMMENT = re.compile(r"^\s*--.*$", re.MULTILINE)
_PARAMETER = re.compile(r"(?<![:\w]):([a-z_]+)")
_SCHEMA = re.compile(r"('?)\bstoker\.")


def quote_identifier(name: str) -> str:
    """``name`` as an SQL identifier, whatever characters it has."""
    return '"' + name.replace('"', '""') + '"'


def in_schema(text: str, schema: str) -> str:
    """The SQL ``text``, written for the schema ``stoker``, for the schema ``schema``."""
    quoted = quote_identifier(schema)
    if "$" in schema:
        tag = "q" * (schema.count("q") + 1)
        text = text.replace("$$", f"${tag}$")
    within_text = "'" + quoted.replace("'", "''")
    return _SCHEMA.sub(lambda match: (within_text if match[1] else quoted) + ".", text)


@cache
def load(name: str, schema: str) -> LiteralString:
    """The statement in queries/``name``.sql, for psycopg; raises FileNotFoundError when there is none."""
    text = (files("stoker.sql") / "queries" / f"{name}.sql").read_text("utf-8")
    text = _COMMENT.sub("", text).strip()
    if _PARAMETER.search(text):
        text = _PARAMETER.sub(r"%(\1)s", text.replace("%", "%%"))
        schema = schema.replace("%", "%%")
    return in_schema(text, schema)
