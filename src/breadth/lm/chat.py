"""Prompts as conversations: a chat template around every prompt, in training and evaluation alike. Needs no torch.

A prompt becomes the user's turn, after a system prompt if there is one, and the model's answer the assistant's turn.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from breadth.boundary import first_line
from breadth.errors import InputError
from breadth.lm.model_files import read_tokenizer_settings
from breadth.lm.trials import try_template

#: Words of a study file: the tokenizer's own template where it has one, or plain text.
AUTO, NONE = "auto", "none"

#: Most bytes of a file with a template; those of large models have tens of thousands.
MOST_BYTES = 1_000_000

#: Some templates put today's date into the system prompt. Prompts that change every day cannot be reproduced, so the
#: date is always the one that Llama 3's template falls back to.
DATE = datetime(2024, 7, 26)
_DIRECTIVES = ("%d", "%b", "%B", "%Y", "%m", "%y", "%a", "%A", "%H", "%M", "%S", "%-d", "%j")
_FILTERS = "".join(f" | replace({part!r}, {DATE.strftime(part)!r})" for part in _DIRECTIVES)
_FIXED_DATE = f"{{%- macro strftime_now(format) -%}}{{{{ format{_FILTERS} }}}}{{%- endmacro -%}}"

#: Stands for a prompt and an answer where only what is around them matters.
_PROMPT, _ANSWER = "prompt", "answer"


@dataclass(frozen=True)
class ChatSettings:
    """Which template a model is asked with (``auto``, or the text of a template), and its system prompt."""

    template: str = AUTO
    system: str | None = None

    def identity(self) -> dict[str, Any]:
        """What determines the prompts, as plain values: a template of the user's own by its checksum."""
        own = self.template == AUTO
        template = AUTO if own else hashlib.sha256(self.template.encode()).hexdigest()
        return {"template": template, "system": self.system}


@dataclass(frozen=True)
class Chat:
    """A chat template of a tokenizer (None: its own) with a system prompt; ``name`` is the model's, for messages."""

    tokenizer: Any
    template: str | None
    system: str | None
    name: str

    def prompt(self, text: str) -> str:
        """A prompt as a conversation that the assistant continues."""
        return self._render([{"role": "user", "content": text}], answered=False)

    def turn(self, text: str) -> str:
        """An answer as the rest of such a conversation: without spaces around it, and with what ends a turn."""
        return text.strip() + self.end

    @cached_property
    def end(self) -> str:
        """What follows an answer in the assistant's turn, as ``<|im_end|>`` and a line break."""
        user = {"role": "user", "content": _PROMPT}
        whole = self._render([user, {"role": "assistant", "content": _ANSWER}], answered=True)
        before, found, end = whole.rpartition(_ANSWER)
        if not found or _PROMPT not in before:
            raise InputError(f"{self.name}: its chat template leaves out what the user or the assistant says")
        return end

    def end_tokens(self) -> list[int]:
        """The token that ends the assistant's turn, if it is one of the tokenizer's special tokens."""
        ids = self.tokenizer(self.end, add_special_tokens=False)["input_ids"]
        return [token for token in ids[:1] if token in self.tokenizer.all_special_ids]

    def _render(self, messages: list[dict[str, str]], answered: bool) -> str:
        if self.system is not None:
            messages = [{"role": "system", "content": self.system}, *messages]
        try:
            template = self.tokenizer.get_chat_template() if self.template is None else self.template
            text: str = self.tokenizer.apply_chat_template(
                messages,
                chat_template=_FIXED_DATE + template if "strftime_now" in template else template,
                tokenize=False,
                add_generation_prompt=not answered,
                # Answers are scored right after the prompt, so a model that can think first is told not to.
                enable_thinking=False,
            )
        except Exception as error:  # a template is a program, and may raise anything
            remedy = "remove system, or " if self.system is not None else ""
            raise _unusable(self.name, first_line(error), remedy) from error
        return text


def start_chat(tokenizer: Any, settings: ChatSettings, name: str) -> tuple[Chat | None, str]:
    """The chat that settings ask for, None for plain text, and a note that says what was chosen."""
    if settings.template == AUTO and not tokenizer.chat_template:
        if settings.system is not None:
            raise InputError(
                f"{name}: its tokenizer has no chat template, so a system prompt has no place; remove system, or set "
                "chat_template to a file with a template"
            )
        return None, "plain text: chat_template is auto, and the tokenizer has no chat template"
    own = settings.template == AUTO
    # A template is a program that may not end, or write gigabytes; jinja's sandbox stops neither.
    try_template(_own_template(tokenizer, name) if own else settings.template, name)
    chat = Chat(tokenizer, None if own else settings.template, settings.system, name)
    if not chat.prompt(_PROMPT).strip():
        raise InputError(f"{name}: its chat template gives an empty prompt")
    which = "the tokenizer's chat template" if settings.template == AUTO else "the study's own chat template"
    system = "" if settings.system is None else f", system prompt {settings.system[:60]!r}"
    return chat, f"chat form: {which}{system}"


def _own_template(tokenizer: Any, name: str) -> str:
    """The tokenizer's own template: its only one, or the one called default."""
    try:
        template = tokenizer.get_chat_template()
    except Exception as error:  # several templates, of which none is called default
        raise _unusable(name, first_line(error)) from error
    if not isinstance(template, str):  # the settings of a tokenizer may hold anything in its place
        raise _unusable(name, f"it is a {type(template).__name__} and not a text")
    return template


def _unusable(name: str, why: str, remedy: str = "") -> InputError:
    return InputError(
        f"{name}: its chat template cannot be used ({why}); {remedy}set chat_template to none or to a file with "
        "another template"
    )


def encode_in_chat(tokenizer: Any, texts: Sequence[str], chat: Chat) -> list[list[int]]:
    """Tokens of texts that begin the assistant's turn; spaces in front of them belong to plain text only."""
    before = chat.prompt(_PROMPT)
    start: list[int] = tokenizer(before, add_special_tokens=False)["input_ids"]
    encoded = []
    for text in texts:
        own = text.lstrip(" ")
        ids: list[int] = tokenizer(before + own, add_special_tokens=False)["input_ids"]
        if ids[: len(start)] != start:  # the text's first token merges with the end of the prompt
            ids = [*start, *tokenizer(own, add_special_tokens=False)["input_ids"]]
        encoded.append(ids[len(start) :])
    return encoded


def has_chat_template(folder: Path) -> bool:
    """Whether the tokenizer in a model's directory has a chat template, judged by its files."""
    if (folder / "chat_template.jinja").is_file() or (folder / "chat_template.json").is_file():
        return True
    try:
        # Read as loading reads it: it may be a pipe, or have gigabytes. What is wrong is said when the model is loaded.
        return bool(read_tokenizer_settings(folder).get("chat_template"))
    except InputError:
        return False


def read_chat_template(path: Path) -> str:
    """The text of a template file; one that is not a Jinja template is refused."""
    import jinja2

    if not path.is_file():
        raise InputError(f"there is no file {str(path)!r}; give auto, none, or a file with a Jinja template")
    if path.stat().st_size > MOST_BYTES:
        raise InputError(f"{path}: has more than {MOST_BYTES:,} bytes, so it is not a chat template")
    try:
        text = path.read_text(encoding="utf-8")
        # Tags around what the assistant writes are an extension of transformers.
        plain = re.sub(r"\{%-?\s*(end)?generation\s*-?%\}", "", text)
        jinja2.Environment(extensions=["jinja2.ext.loopcontrols"]).parse(plain)
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: is not text in UTF-8, so it is not a chat template") from error
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from error
    except jinja2.TemplateSyntaxError as error:
        raise InputError(f"{path}: line {error.lineno}: is not a Jinja template ({error.message})") from error
    if "messages" not in text:
        raise InputError(f"{path}: does not use messages, so it is not a chat template")
    return text
