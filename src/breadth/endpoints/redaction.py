"""A key, in whatever spelling a server sends it back, is replaced before anything is shown or kept.

A server that is broken, or means no good, may repeat the key as it was sent, in an address, in JSON, or encoded. What
is not covered: parts of a key, and spellings that nobody uses (every second letter, encoded twice).
"""

from __future__ import annotations

import base64
import re

#: What is put in place of a key.
REDACTED = "[key]"

#: Shorter keys (such as "EMPTY", for servers that need one) are not redacted: they would match ordinary words.
SECRET = 8

#: The most characters in which one character of a key is spelled (``&#x00073;``).
LONGEST_SPELLING = 9


class Redactor:
    """Removes one key from texts; ``longest`` is the most characters that one spelling of it has."""

    def __init__(self, key: str) -> None:
        self.longest = LONGEST_SPELLING * len(key)
        self._pattern: re.Pattern[str] | None = None
        if len(key) >= SECRET:
            spellings = [_letters(key), _letters(key[::-1]), key.encode().hex(), *_in_base64(key)]
            # Whatever the case of letters: a server may turn a header into small or capital ones.
            self._pattern = re.compile("|".join(spellings), re.IGNORECASE)

    def redact(self, text: str) -> str:
        """A text without the key."""
        if self._pattern is None:
            return text
        return self._pattern.sub(REDACTED, text)

    def beginning(self, text: str, most: int) -> str:
        """About the first ``most`` characters of a text that may be huge, without the key.

        Where the text is cut, the beginning of a key may be left, which is not recognised and is therefore cut off.
        """
        if len(text) <= most + self.longest:
            return self.redact(text)
        redacted = self.redact(text[: most + self.longest])
        return redacted[: max(0, len(redacted) - self.longest)]


def _letters(key: str) -> str:
    """A pattern of a key in which each letter may be written in the ways of JSON, addresses, pages and programs."""
    return "".join(_letter(letter) for letter in key)


def _letter(letter: str) -> str:
    code = ord(letter)
    spellings = [
        re.escape(letter),
        rf"\\{re.escape(letter)}",
        rf"%{code:02x}",
        rf"\\u00{code:02x}",
        rf"\\x{code:02x}",
        rf"&#0{{0,3}}{code};",
        rf"&#x0{{0,3}}{code:02x};",
    ]
    if letter == " ":
        spellings.append(r"\+")
    return f"(?:{'|'.join(spellings)})"


def _in_base64(key: str) -> list[str]:
    """Patterns of a key in base64, alone or inside of something else ("Bearer ...", a JSON object).

    Three bytes become four letters, so there are three ways in which a key is spelled, by the bytes before it. Letters
    at both ends that other bytes share are left out of the pattern, and taken with it where they are the key's own.
    """
    patterns = []
    for before in range(3):
        encoded = base64.b64encode(b"\0" * before + key.encode()).decode().rstrip("=")
        # Letters that spell bits of the bytes before the key, and bits of those after it.
        first = -(-before * 8 // 6)
        last = (before + len(key)) * 8 // 6
        core = re.escape(encoded[first:last])
        # The alphabet for addresses has other signs for 62 and 63.
        core = core.replace(r"\+", r"(?:\+|-|%2b)").replace("/", r"(?:/|_|%2f|\\/)")
        patterns.append(core + r"[A-Za-z0-9+/_-]?(?:=|%3d){0,2}")
    return patterns
