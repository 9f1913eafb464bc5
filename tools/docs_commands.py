"""Every `envkit ...` that the documentation tells somebody to type, read with envkit's own parser.

Nothing is run and no file has to exist: what is checked is that the command, its options and the
choices of its options are there. Code blocks are read as a shell would (`sh`, `bash`, what stands
after `$ ` in `console`, `run:` in `yaml`), and so is code within a sentence.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from typing import Final

import click

from envkit.cli.app import app

BLOCK: Final = re.compile(r"^([ \t]*)```(\w*)\n(.*?)^\1```[ \t]*$", re.MULTILINE | re.DOTALL)
IN_SENTENCE: Final = re.compile(r"`(envkit [^`\n]+)`")
COMMENT: Final = re.compile(r"(?:^|(?<=\s))#.*$", re.MULTILINE)
ASSIGNMENT: Final = re.compile(r"\w+=")
#: `envkit ...` in a sentence: any command.
ELLIPSIS: Final = "..."
#: What may stand before `envkit` in one command.
LEADS: Final = frozenset({"conda", "exec", "srun", "time", "timeout"})


def typed(language: str, block: str) -> str:
    """Return the part of a code block that is typed into a shell."""
    if language in {"sh", "bash"}:
        return block
    if language == "console":
        return "\n".join(re.findall(r"^[$>] (.*)$", block, re.MULTILINE))
    if language in {"yaml", "yml"}:
        return "\n".join(re.findall(r"\brun: ([^|>].*)$", block, re.MULTILINE))
    return ""


def words(text: str) -> Iterator[list[str]]:
    """Yield the words of each simple command, those of a script after `-c` too."""
    try:
        read = [*tokens(text), ";"]
    except ValueError:  # a quote without its end, as in the text of a here-document: line by line
        lines = text.splitlines()
        for line in lines if len(lines) > 1 else ():
            yield from words(line)
        return
    command: list[str] = []
    for word in read:
        if word.strip("();<>|&"):
            if command[-1:] == ["-c"]:
                yield from words(word)
            command.append(word)
        elif command:
            yield command
            command = []


def tokens(text: str) -> Iterator[str]:
    """Yield words and signs as a shell reads them; the end of a line is a `;`."""
    script = COMMENT.sub("", text.replace("\\\n", " ")).replace("\n", " ;\n")
    lexer = shlex.shlex(script, posix=True, punctuation_chars=True)
    lexer.whitespace_split, lexer.commenters = True, ""
    yield from lexer


def arguments(command: list[str]) -> list[str] | None:
    """Return what is handed to envkit; None for another program."""
    while command and ASSIGNMENT.match(command[0]):
        command = command[1:]
    names = [word.rpartition("/")[2] for word in command]
    if "envkit" not in names or ELLIPSIS in command:
        return None
    at = names.index("envkit")
    return command[at + 1 :] if at == 0 or names[0] in LEADS else None


def commands_of_blocks(text: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the line of each code block, with what its commands hand to envkit."""
    for match in BLOCK.finditer(text):
        line = text.count("\n", 0, match.start()) + 1
        for command in words(typed(match.group(2), match.group(3))):
            if (found := arguments(command)) is not None:
                yield line, found


def commands_in_sentences(text: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the line of each command within a sentence, with what it hands to envkit."""
    prose = BLOCK.sub(lambda match: "\n" * match.group().count("\n"), text)
    for match in IN_SENTENCE.finditer(prose):
        for command in words(match.group(1)):
            if (found := arguments(command)) is not None:
                yield prose.count("\n", 0, match.start()) + 1, found


def fault(given: list[str], *, complete: bool) -> str | None:
    """Say what envkit would not understand; `complete`: options have their values."""
    command: click.Command = app
    context = click.Context(command, info_name="envkit")
    rest = list(given)
    while isinstance(command, click.Group) and rest and not rest[0].startswith("-"):
        name = rest.pop(0)
        below = command.get_command(context, name)
        if below is None:
            return f"there is no command {name} in {context.command_path}"
        command, context = below, click.Context(below, parent=context, info_name=name)
    try:
        values, _, _ = command.make_parser(context).parse_args(rest)
        wrong_choices(command, context, values)
    except click.NoSuchOption as error:
        return error.format_message()
    except click.UsageError as error:
        return error.format_message() if complete else None
    return None


def wrong_choices(
    command: click.Command, context: click.Context, values: dict[str, object]
) -> None:
    """Raise what click raises for a value that is none of an option's choices."""
    for parameter in command.params:
        value = values.get(parameter.name or "")
        if isinstance(parameter.type, click.Choice) and isinstance(value, str):
            parameter.type.convert(value, parameter, context)


def faults(text: str) -> tuple[int, list[str]]:
    """Return how many commands a page has, and what is wrong: `LINE: envkit ...: why`."""
    found = [(*one, True) for one in commands_of_blocks(text)]
    found += [(*one, False) for one in commands_in_sentences(text)]
    said = [
        f"{line}: envkit {shlex.join(given)}: {why}"
        for line, given, complete in found
        if (why := fault(given, complete=complete)) is not None
    ]
    return len(found), said
