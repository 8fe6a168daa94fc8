"""Binary tsvector and tsquery. Source: PostgreSQL, tsvector.c, tsquery.c."""

from __future__ import annotations

from decoder.reader import Reader

_WEIGHTS = "DCBA"
_OPERAND, _OPERATOR = 1, 2
_NOT, _AND, _OR, _PHRASE = 1, 2, 3, 4
_PRIORITY = {_NOT: 4, _AND: 2, _OR: 1, _PHRASE: 3}
_MOST_DEPTH = 200


def _quoted(lexeme: str) -> str:
    return "'" + lexeme.replace("\\", "\\\\").replace("'", "''") + "'"


def tsvector_text(raw: bytes, encoding: str) -> str:
    """Lexemes with their positions and weights."""
    read = Reader(raw, "tsvector", start=0, encoding=encoding)
    lexemes = []
    for _ in range(read.uint32()):
        lexeme = _quoted(read.name("lexeme"))
        positions = [read.uint16() for _ in range(read.uint16())]
        marks = (f"{p & 0x3FFF}{_WEIGHTS[p >> 14].replace('D', '')}" for p in positions)
        lexemes.append(lexeme + (":" + ",".join(marks) if positions else ""))
    read.end()
    return " ".join(lexemes)


def tsquery_text(raw: bytes, encoding: str) -> str:
    """A tree in prefix order, the right operand before the left."""
    read = Reader(raw, "tsquery", start=0, encoding=encoding)
    text = _node(read, 0, right_of_phrase=False, depth=0) if read.uint32() else ""
    read.end()
    return text


def _node(read: Reader, parent_priority: int, *, right_of_phrase: bool, depth: int) -> str:
    """Source: tsquery.c, ``infix()``."""
    if depth > _MOST_DEPTH:
        raise ValueError("tsquery nested too deeply")
    kind = read.uint8()
    if kind == _OPERAND:
        return _operand(read)
    operator = read.uint8()
    if kind != _OPERATOR or operator not in _PRIORITY:
        raise ValueError("tsquery item")
    priority = _PRIORITY[operator]
    parentheses = priority < parent_priority or (operator == _PHRASE and right_of_phrase)
    if operator == _NOT:
        text = "!" + _node(read, priority, right_of_phrase=False, depth=depth + 1)
    else:
        sign = {_AND: "&", _OR: "|"}.get(operator) or _phrase_sign(read.uint16())
        is_phrase = operator == _PHRASE
        right = _node(read, priority, right_of_phrase=is_phrase, depth=depth + 1)
        left = _node(read, priority, right_of_phrase=False, depth=depth + 1)
        text = f"{left} {sign} {right}"
    return f"( {text} )" if parentheses else text


def _phrase_sign(distance: int) -> str:
    return "<->" if distance == 1 else f"<{distance}>"


def _operand(read: Reader) -> str:
    weights, prefix = read.uint8(), read.uint8()
    text = _quoted(read.name("lexeme"))
    marks = "*" if prefix else ""
    marks += "".join(_WEIGHTS[bit] for bit in (3, 2, 1, 0) if weights & 1 << bit)
    return f"{text}:{marks}" if marks else text
