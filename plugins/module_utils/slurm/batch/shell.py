# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Reads a shell script into simple commands with their lines, as far as judging a batch script needs it. Pure.

It knows quotes, continuations, comments, here-documents, arrays, functions and compound commands; it
expands nothing and runs nothing (POSIX Shell Command Language, 2.2 to 2.9; bash(1)). Runs on nodes:
Python 3.9.
"""

from __future__ import annotations

import dataclasses
import re
import typing as t

_SPACE = " \t"
_OPERATORS = ("&&", "||", ";;&", ";;", ";&", "|&", "&", "|", ";", "(", ")", "\n")
_REDIRECTS = ("<<<", "&>>", "&>", ">>", ">&", ">|", "<<-", "<<", "<&", "<>", ">", "<")
_OPENING = frozenset("if for while until case select".split())
_CLOSING = frozenset("fi done esac".split())
_LEADING = frozenset("if then elif else do while until ! { time coproc".split())
ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)(\[[^\]]*\])?(\+?)=")


class Word(t.NamedTuple):
    """A word as it is written, quotes and all, with its first line and where it begins and ends."""

    text: str
    line: int
    start: int
    end: int


class Fault(t.NamedTuple):
    """Something in the text that the shell reads otherwise than its writer. kind: comment, space or quote."""

    kind: str
    line: int


@dataclasses.dataclass(frozen=True)
class Command:
    """A simple command.

    words: without the assignments before it and without redirections. line, end_line: first and last.
    start, end: its place in the text. before, after: the operators on both sides, "" for a line's
    end. function: name of the function that contains it. depth: of if, for, while and case around it. groups: of
    ( ) and { } around it.
    """

    words: tuple[Word, ...]
    assignments: tuple[Word, ...]
    redirects: tuple[tuple[str, str], ...]
    line: int
    end_line: int
    start: int
    end: int
    before: str
    after: str
    function: str = ""
    depth: int = 0
    groups: int = 0

    @property
    def name(self) -> str:
        """The program's name without its directory; empty for a bare assignment."""
        return plain(self.words[0].text).rpartition("/")[2] if self.words else ""


@dataclasses.dataclass(frozen=True)
class Text:
    """A script in commands; faults as the shell would not see them; documents: lines of here-documents."""

    commands: tuple[Command, ...]
    faults: tuple[Fault, ...]
    documents: frozenset[int] = frozenset()


class _Token(t.NamedTuple):
    kind: str  # word, operator, redirect or test
    word: Word


# -- words -----------------------------------------------------------------------------------------
def plain(text: str) -> str:
    """Return a word without its quotes; expansions stay as they are written."""
    out = []
    place, quote = 0, ""
    while place < len(text):
        char = text[place]
        if quote == "'":
            if char == "'":
                quote = ""
            else:
                out.append(char)
        elif char == "\\" and place + 1 < len(text):
            place += 1
            if quote and text[place] not in '$`"\\\n':
                out.append("\\")
            if text[place] != "\n":
                out.append(text[place])
        elif char == '"':
            quote = "" if quote else '"'
        elif char == "'" and not quote:
            quote = "'"
        elif char == "$" and text[place + 1 : place + 2] == "'" and not quote:
            pass
        elif char == "$" and text[place + 1 : place + 2] in ("(", "{"):
            end = _balanced(text, place + 1)
            out.append(text[place:end])
            place = end - 1
        else:
            out.append(char)
        place += 1
    return "".join(out)


def inner(text: str) -> str:
    """Return the script that `bash -c WORD` gets: without quotes, continuations kept for their lines."""
    if text[:1] == "'" and text[-1:] == "'" and "'" not in text[1:-1]:
        return text[1:-1]
    return plain(text.replace("\\\n", "\0")).replace("\0", "\\\n")


def live(text: str) -> str:
    """Return what of a word the shell expands that reads it: quoted by ' or \\ is blanked out."""
    out = []
    place, double = 0, False
    while place < len(text):
        char = text[place]
        if char == "\\":
            place += 1
            out.append("  ")
        elif char == '"':
            double = not double
            out.append(" ")
        elif char == "'" and not double:
            end = text.find("'", place + 1)
            end = len(text) - 1 if end < 0 else end
            out.append(" " * (end - place + 1))
            place = end
        else:
            out.append(char)
        place += 1
    return "".join(out)


def _balanced(text: str, place: int) -> int:
    """Return the place after the bracket that closes the one at place; the end where none does."""
    close = {"(": ")", "{": "}"}[text[place]]
    depth, start = 0, text[place]
    while place < len(text):
        char = text[place]
        if char == "\\":
            place += 1
        elif char in "'\"`":
            place = _quoted(text, place) - 1
        elif char == start:
            depth += 1
        elif char == close:
            depth -= 1
            if not depth:
                return place + 1
        place += 1
    return len(text)


def _quoted(text: str, place: int) -> int:
    """Return the place after the quote that closes the one at place."""
    quote = text[place]
    place += 1
    while place < len(text) and text[place] != quote:
        if quote != "'" and text[place] == "\\":
            place += 1
        elif quote == '"' and text[place] == "$" and text[place + 1 : place + 2] in ("(", "{"):
            place = _balanced(text, place + 1) - 1
        place += 1
    return min(place + 1, len(text))


# -- tokens ----------------------------------------------------------------------------------------
class _Lexer:
    def __init__(self, text: str, first_line: int) -> None:
        self.text, self.place, self.line = text, 0, first_line
        self.tokens: list[_Token] = []
        self.faults: list[Fault] = []
        self.documents: list[tuple[str, bool]] = []
        self.inside: set[int] = set()

    def run(self) -> None:
        while self.place < len(self.text):
            self._next()

    def _take(self, kind: str, end: int) -> None:
        said = self.text[self.place : end]
        self.tokens.append(_Token(kind, Word(said, self.line, self.place, end)))
        self.line += said.count("\n")
        self.place = end

    def _next(self) -> None:
        text, place = self.text, self.place
        char = text[place]
        if char in _SPACE or char == "\r":
            self.place += 1
        elif text.startswith("\\\n", place):
            self.place += 2
            self.line += 1
            self._after_continuation()
        elif char == "#":
            end = text.find("\n", place)
            self.place = len(text) if end < 0 else end
        elif char == "\n":
            self._take("operator", place + 1)
            self._skip_documents()
        elif self._at_command() and re.match(r"\[\[\s|\(\(", text[place:]):
            close = "]]" if char == "[" else "))"
            end = text.find(close, place)
            self._take("test", len(text) if end < 0 else end + 2)
        elif not self._redirect() and not self._operator():
            self._word()

    def _at_command(self) -> bool:
        if not self.tokens or self.tokens[-1].kind == "operator":
            return True
        return self.tokens[-1].kind == "word" and self.tokens[-1].word.text in _LEADING

    def _redirect(self) -> bool:
        for sign in _REDIRECTS:
            if not self.text.startswith(sign, self.place):
                continue
            if sign in "<>" and self.text[self.place + 1 : self.place + 2] == "(":
                return False  # a process substitution is a word
            self._take("redirect", self.place + len(sign))
            if sign in ("<<", "<<-"):
                found = re.compile(r"[ \t]*(\S+)").match(self.text, self.place)
                if found:
                    self.documents.append((re.sub(r"[\"'\\]", "", found[1]), sign == "<<-"))
            return True
        return False

    def _operator(self) -> bool:
        for sign in _OPERATORS:
            if self.text.startswith(sign, self.place):
                self._take("operator", self.place + len(sign))
                return True
        return False

    def _skip_documents(self) -> None:
        """Go over the here-documents that begin at this line."""
        for end, tabs in self.documents:
            while self.place < len(self.text):
                stop = self.text.find("\n", self.place)
                stop = len(self.text) if stop < 0 else stop
                said = self.text[self.place : stop]
                self.inside.add(self.line)
                self.place, self.line = min(stop + 1, len(self.text)), self.line + 1
                if (said.lstrip("\t") if tabs else said) == end:
                    break
        self.documents = []

    def _after_continuation(self) -> None:
        """Check whether a comment cuts off a command that continues below."""
        rest = self.text[self.place :].split("\n")
        if not re.match(r"[ \t]*#", rest[0]):
            return
        for said in rest[1:]:
            if re.match(r"[ \t]*#", said):
                continue
            goes_on = said.strip() and (
                said.strip().startswith("-") or rest[0].rstrip().endswith("\\")
            )
            if goes_on:
                self.faults.append(Fault("comment", self.line))
            return

    def _word(self) -> None:
        text, place = self.text, self.place
        while place < len(text):
            char = text[place]
            if char == "\\":
                self._escape(place)
                place += 2
            elif char in "'\"`":
                end = _quoted(text, place)
                if end == len(text) and (end - place < 2 or text[end - 1] != char):
                    line = self.line + text.count("\n", self.place, place)
                    self.faults.append(Fault("quote", line))
                place = end
            elif text[place : place + 2] in ("$(", "${") or (
                text[place : place + 2] in ("<(", ">(") and place == self.place
            ):
                place = _balanced(text, place + 1)
            elif char == "(" and re.fullmatch(ASSIGNMENT, text[self.place : place]):
                place = _balanced(text, place)
            elif char in " \t\r\n;&|()<>":
                break
            else:
                place += 1
        self._take("word", max(place, self.place + 1))

    def _escape(self, place: int) -> None:
        """See whether a backslash was meant to continue the line."""
        if place > self.place:
            return
        rest = self.text[place + 1 :].split("\n")[0]
        line = self.line
        if rest and not rest.strip():
            self.faults.append(Fault("space", line))
        elif re.match(r"[ \t]+#|#\s", rest):
            self.faults.append(Fault("comment", line))


# -- commands --------------------------------------------------------------------------------------
def parse(text: str, first_line: int = 1) -> Text:
    """Read a script. It raises nothing: what it cannot read, it reads as words."""
    lexer = _Lexer(text, first_line)
    lexer.run()
    reader = _Reader(text)
    for token in lexer.tokens:
        reader.see(token)
    reader.end("")
    faults = tuple(sorted(set(lexer.faults), key=lambda one: one.line))
    return Text(tuple(reader.found), faults, frozenset(lexer.inside))


class _Reader:
    def __init__(self, text: str) -> None:
        self.text = text
        self.found: list[Command] = []
        self.functions: list[str] = []  # "" for a plain { }
        self.named = ""
        self.depth = 0
        self.subshells = 0
        self.before = ""
        self.closed = False  # whether a compound command was closed, and nothing has come since
        self._clear()

    def _clear(self) -> None:
        self.words: list[Word] = []
        self.assignments: list[Word] = []
        self.redirects: list[tuple[str, str]] = []
        self.sign = ""
        self.last: Word | None = None
        self.first: Word | None = None

    def see(self, token: _Token) -> None:
        word = token.word
        if token.kind == "operator":
            self._operator(word)
        elif token.kind == "redirect":
            # A number right before it is a file descriptor and no argument.
            if self.words and self.words[-1].text.isdigit() and self.words[-1].end == word.start:
                self.words.pop()
            self.sign = word.text
            self._touch(word)
        elif self.sign:
            self.redirects.append((self.sign, plain(word.text)))
            self.sign = ""
            self._touch(word)
        else:
            self._word(word, token.kind == "test")

    def _touch(self, word: Word) -> None:
        self.first = self.first or word
        self.last = word

    def _word(self, word: Word, test: bool) -> None:
        said = word.text
        if not self.words and not self.assignments and not test:
            if said in _OPENING:
                self.depth += 1
            if said in _CLOSING:
                self.depth = max(0, self.depth - 1)
                self.closed = True
                self._touch(word)
                return
            if said == "{":
                self.functions.append(self.named)
                self.named = ""
            if said == "}":
                if self.functions:
                    self.functions.pop()
                self.closed = True
                self._touch(word)
                return
            if said in _LEADING:
                return
        if said == "{" and len(self.words) == 2 and self.words[0].text == "function":
            self.functions.append(self.words[1].text)
            self._clear()
            return
        if not self.words and not test and ASSIGNMENT.match(said):
            self.assignments.append(word)
        else:
            self.words.append(word)
        self._touch(word)

    def _operator(self, word: Word) -> None:
        sign = word.text
        if sign == "(" and len(self.words) == 1 and not self.assignments:
            self.named = self.words[0].text
            self._clear()
            return
        if sign == ")" and self.named and not self.words:
            return
        if sign == ")" and self.depth and len(self.words) == 1 and not self.subshells:
            self._clear()  # a pattern of case
            return
        if self.words and self.words[0].text == "function" and len(self.words) > 1:
            self.named = self.words[1].text
            self._clear()
            return
        self.end("" if sign in ("\n", ";") else sign)
        if sign == "(":
            self.subshells += 1
        elif sign == ")":
            self.subshells = max(0, self.subshells - 1)

    def end(self, sign: str) -> None:
        """Close the command that was being read."""
        if (self.words or self.assignments) and self.first and self.last:
            last = self.last
            self.found.append(
                Command(
                    words=tuple(self.words),
                    assignments=tuple(self.assignments),
                    redirects=tuple(self.redirects),
                    line=self.first.line,
                    end_line=last.line + last.text.count("\n"),
                    start=self.first.start,
                    end=last.end,
                    before=self.before,
                    after=sign,
                    function=next((name for name in reversed(self.functions) if name), ""),
                    depth=self.depth,
                    groups=self.subshells + self.functions.count(""),
                )
            )
            self.closed = sign == ")"
        elif self.found and self.closed:
            # `done > file &`, `) | more`: belongs to what was just closed, here to its last command.
            last_one = self.found[-1]
            self.found[-1] = dataclasses.replace(
                last_one,
                redirects=last_one.redirects + tuple(self.redirects),
                after=sign if sign in ("&", "|", "&&", "||") else last_one.after,
            )
            self.closed = sign == ")"
        if sign or self.words or self.assignments:
            self.before = sign
        self._clear()


def one_program(text: str) -> bool:
    """Return whether a text is one simple command, which a script can start in the background, and signal."""
    text = text.strip()
    read = parse(text)
    if len(read.commands) != 1 or read.documents:
        return False
    (only,) = read.commands
    # A comment, a separator or an operator is behind it.
    return only.end == len(text) and not (only.groups or only.depth or only.function)
