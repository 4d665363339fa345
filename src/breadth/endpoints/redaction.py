"""A key, in whatever spelling a server sends it back, is replaced before anything is shown or kept.

A server that is broken, or means no good, may repeat the key as it was sent, in an address, in JSON, or encoded, and
broken over lines. What is not covered: parts of a key, and spellings that nobody uses (every second letter, shifted in
the alphabet, in base32, encoded twice).
"""

from __future__ import annotations

import base64
import re

#: What is put in place of a key.
REDACTED = "[key]"

#: Shorter keys (such as "EMPTY", for servers that need one) are not redacted: they would match ordinary words.
SECRET = 8

#: The most characters in which one character of a key is spelled (``&#x00073;``), with some room for what is between.
LONGEST_SPELLING = 12

#: Most characters between two letters of a key. In messages, more blanks than that become one.
WIDEST_GAP = 4

#: What may stand between two letters of a key without a reader noticing: blanks, line breaks, control characters with
#: the colours of a terminal, and letters that have no width.
_BETWEEN = r"\x1b\[[0-9;]{0,12}[a-z]|[\s\x00-\x1f\x7f-\x9f\u00ad\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]"


class Redactor:
    """Removes one key from texts; ``longest`` is the most characters that one spelling of it has."""

    def __init__(self, key: str) -> None:
        self.longest = LONGEST_SPELLING * len(key)
        self._pattern: re.Pattern[str] | None = None
        if len(key) >= SECRET:
            between = _BETWEEN
            # A line break that was written as in JSON; not if the key has a backslash of its own to begin with.
            if "\\" not in key:
                between += r"|\\[nrt]"
            # Short, and never given back once matched: otherwise a long line of blanks, each letter of which may begin
            # a key, would take the square of its length.
            gap = f"(?:{between}){{0,{WIDEST_GAP}}}+"
            # Quotes, commas and signs of a program: ['s', 'k'] and "sk" + "-a"; not what the key itself is made of.
            signs = "".join(re.escape(sign) for sign in "'\",+" if sign not in key)
            wide = f"(?:{between}|[{signs}]){{0,{WIDEST_GAP}}}+" if signs else gap
            # 73:6b:2d, 73 6b 2d and 0x73, 0x6b, 0x2d
            wide_codes = f"(?:{between}|[:,;-]|0x){{0,{WIDEST_GAP}}}+"
            spellings = []
            for spelled in (key, key[::-1]):
                codes = spelled.encode()
                spellings.append(_letters(spelled, wide))
                spellings += _in_base64(spelled, gap)
                spellings.append(wide_codes.join(f"{code:02x}" for code in codes))
                # 115, 107, 45
                spellings.append(r"[\s,;]{1,3}+".join(f"{code}" for code in codes))
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


def _letters(key: str, gap: str) -> str:
    """A pattern of a key in which each letter may be written in the ways of JSON, addresses, pages and programs."""
    return gap.join(_letter(letter) for letter in key)


def _letter(letter: str) -> str:
    code = ord(letter)
    spellings = [
        re.escape(letter),
        rf"\\{re.escape(letter)}",
        rf"%(?:25){{0,3}}{code:02x}",  # also an address in an address
        rf"={code:02x}",
        rf"\\{code:03o}",
        rf"\\u00{code:02x}",
        rf"\\u\{{0{{0,4}}{code:02x}\}}",
        rf"\\x{code:02x}",
        rf"&#0{{0,3}}{code};",
        rf"&#x0{{0,3}}{code:02x};",
    ]
    if "!" <= letter <= "~":
        spellings.append(chr(code + 0xFEE0))  # as wide as Chinese letters
    if letter == " ":
        spellings.append(r"\+")
        spellings.append("")  # as it is, it belongs to the gap in front of it
    return f"(?:{'|'.join(spellings)})"


def _in_base64(key: str, gap: str) -> list[str]:
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
        # The alphabet for addresses has other signs for 62 and 63.
        signs = {"+": r"(?:\+|-|%2b)", "/": r"(?:/|_|%2f|\\/)"}
        core = gap.join(signs.get(letter, letter) for letter in encoded[first:last])
        patterns.append(core + r"[A-Za-z0-9+/_-]?(?:=|%3d){0,2}")
    return patterns
