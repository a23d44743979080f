"""Whether SQL that somebody wrote stays in the parentheses that it is put into. Reads its marks, does not understand it."""

import re

_LATER = r"A-Za-z0-9_\x80-\U0010ffff"  # what a name goes on with, as the server reads it
_FIRST = r"A-Za-z_\x80-\U0010ffff"
_TOKENS = re.compile(
    rf"""
      (?<![{_LATER}$]) [eE]'(?:[^'\\]|''|\\.)*'
    | '(?:[^']|'')*'
    | "(?:[^"]|"")*"
    | --[^\n\r]*
    | (?<![{_LATER}$]) \$(?P<tag>(?:[{_FIRST}][{_LATER}]*)?)\$ .*? \$(?P=tag)\$
    | (?P<comment> /\* )
    | (?P<mark> ['"();] | (?<![{_LATER}$])\$(?:[{_FIRST}][{_LATER}]*)?\$ )
    """,
    re.VERBOSE | re.DOTALL,
)
_COMMENT_MARKS = re.compile(r"/\*|\*/")


def leaving(text: str) -> str:
    """What would leave the parentheses around ``text``, in words; empty: it stays within. Strings are standard-conforming."""
    depth, at = 0, 0
    while match := _TOKENS.search(text, at):
        at = match.end()
        if match["comment"]:
            at = _after_comment(text, at)
            if at < 0:
                return "a comment is not closed"
        elif (mark := match["mark"]) == "(":
            depth += 1
        elif mark == ")":
            depth -= 1
            if depth < 0:
                return '")" closes what it did not open'
        elif mark == ";":
            return '";" ends the statement; give one condition'
        elif mark:
            return "a quote is not closed"
    return '"(" is not closed' if depth else ""


def _after_comment(text: str, at: int) -> int:
    """Behind a comment, which may hold others; -1 when it does not end."""
    depth = 1
    while depth:
        mark = _COMMENT_MARKS.search(text, at)
        if mark is None:
            return -1
        depth += 1 if mark.group() == "/*" else -1
        at = mark.end()
    return at
