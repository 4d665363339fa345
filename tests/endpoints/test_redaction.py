"""A key is recognised in every spelling that a server may send it back in."""

import base64
import json
import time
from urllib.parse import quote, quote_plus

import pytest

from breadth.endpoints.redaction import Redactor

#: Keys of the lengths modulo three that matter to base64, and one with characters that JSON and addresses escape.
KEYS = ["sk-a-Secret-key-1234", "sk-a-Secret-key-12345", "sk-a-Secret-key-123456", 'p+w/"q\\u~ A&b=?>>~~??']


def standard(content):
    return base64.b64encode(content.encode()).decode()


def urlsafe(content):
    return base64.urlsafe_b64encode(content.encode()).decode()


def over_lines(text, width, end="\n"):
    return end.join(text[i : i + width] for i in range(0, len(text), width))


SPELLINGS = {
    "as it is": lambda key: key,
    "small letters": str.lower,
    "capital letters": str.upper,
    "reversed": lambda key: key[::-1],
    "for an address": lambda key: quote(key, safe=""),
    "for a query": quote_plus,
    "every letter for an address": lambda key: "".join(f"%{ord(letter):02X}" for letter in key),
    "hexadecimal": lambda key: key.encode().hex(),
    "hexadecimal capitals": lambda key: key.encode().hex().upper(),
    "JSON": lambda key: json.dumps(key)[1:-1],
    "JSON with codes": lambda key: "".join(f"\\u{ord(letter):04x}" for letter in key),
    "as bytes": lambda key: "".join(f"\\x{ord(letter):02x}" for letter in key),
    "HTML": lambda key: "".join(f"&#{ord(letter)};" for letter in key),
    "HTML hexadecimal": lambda key: "".join(f"&#x{ord(letter):05X};" for letter in key),
    "base64 of the reversed": lambda key: standard(key[::-1]),
    "hexadecimal reversed": lambda key: key[::-1].encode().hex(),
    "hexadecimal with colons": lambda key: key.encode().hex(":"),
    "hexadecimal as numbers": lambda key: " ".join(f"0x{ord(letter):02x}" for letter in key),
    "hexadecimal over lines": lambda key: over_lines(key.encode().hex(), 16),
    "numbers": lambda key: str(list(key.encode())),
    "octal": lambda key: "".join(f"\\{ord(letter):03o}" for letter in key),
    "as bytes of a mail": lambda key: "".join(f"={ord(letter):02X}" for letter in key),
    "as points of Unicode": lambda key: "".join(f"\\u{{{ord(letter):x}}}" for letter in key),
    "for an address, twice": lambda key: quote(quote(key, safe=""), safe=""),
    "over lines": lambda key: over_lines(key, 7),
    "over lines of Windows": lambda key: over_lines(key, 7, "\r\n  "),
    "letter by letter": " ".join,
    "with tabs": "\t".join,
    "with zero bytes": "\0".join,
    "with spaces of no width": "\u200b".join,
    "with soft hyphens": "\u00ad".join,
    "with colours": "\x1b[0m".join,
    "wide letters": lambda key: "".join(chr(ord(letter) + 0xFEE0) if letter != " " else letter for letter in key),
    "base64 over lines": lambda key: over_lines(standard(key), 8),
    "base64": standard,
    "base64 without padding": lambda key: standard(key).rstrip("="),
    "base64 for addresses": urlsafe,
    "base64 for addresses without padding": lambda key: urlsafe(key).rstrip("="),
    "base64 in an address": lambda key: quote(standard(key), safe=""),
    "base64 of the header": lambda key: standard(f"Bearer {key}"),
    "base64 after one letter": lambda key: standard(f"x{key}"),
    "base64 in the middle": lambda key: standard(f"my {key} is"),
}


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("spelling", SPELLINGS)
def test_spellings(spelling, key):
    spelled = SPELLINGS[spelling](key)
    redacted = Redactor(key).redact(f"the server got <{spelled}> and more")
    assert redacted.startswith("the server got <")
    assert redacted.endswith("> and more")
    assert "[key]" in redacted
    # Around a key in base64 a few letters of what stood before and after it may stay.
    assert len(redacted) <= len("the server got <[key]> and more") + 14
    if "base64" in spelling:
        assert key not in base64.b64decode(redacted.split("<")[1].split("[")[0] + "==").decode("latin-1")


@pytest.mark.parametrize("piece", ["s", "s ", "n\\n", "\\n", "\x1b[n", "0x", "73 ", "sk-a\n", "s" + " " * 999])
@pytest.mark.parametrize("key", [KEYS[0], "ssssssssssssssss", "nnnnnnnnnnnn"])
def test_texts_that_begin_like_a_key_everywhere_take_no_longer(piece, key):
    redactor = Redactor(key)

    def seconds(length):
        text = piece * (length // len(piece))
        began = time.process_time()
        redactor.redact(text)
        return time.process_time() - began

    # Ten times as long for ten times the text, with room for what else the machine does.
    assert seconds(200_000) < 40 * seconds(20_000) + 0.5


def test_other_words_stay():
    text = "The answer is 42, as c2st and 736b would say: sk-another-key-9999"
    assert Redactor(KEYS[0]).redact(text) == text


def test_short_keys_match_ordinary_words_and_stay():
    assert Redactor("EMPTY").redact("the list is EMPTY") == "the list is EMPTY"
    assert Redactor("").redact("the list is EMPTY") == "the list is EMPTY"


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_no_part_of_a_key_is_left_where_a_text_is_cut(spelling):
    redactor, spelled = Redactor(KEYS[0]), SPELLINGS[spelling](KEYS[0])
    # Where the key begins: in some, another word stands before it.
    begins = 10 if spelling in ("base64 of the header", "base64 in the middle") else 0
    for before in range(100):
        text = "." * before + spelled + "." * 1000
        beginning = redactor.beginning(text, 50)
        assert spelled[begins : begins + 8] not in beginning
        assert len(beginning) <= 50 + len("[key]")
    assert redactor.beginning(spelled * 1000, 50).replace("[key]", "") == ""
