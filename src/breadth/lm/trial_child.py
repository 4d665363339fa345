"""What a child process does to try a tokenizer or a chat template under limits; ``trials`` starts it.

It is run as a file and imports nothing of breadth, so that it starts in a tenth of a second. It reads one line of JSON,
prints one line of JSON, and may be killed at any time.
"""

from __future__ import annotations

import json
import sys
from typing import Any

#: A text as prompts are, and what makes bad regular expressions slow: long runs of one character, and their ends.
TEXTS = (
    "The cat sat on the mat. Question: Is the cat on the mat? Yes or No?\nAnswer: Yes, it's 1,234.5 °C — naïve 猫!",
    "a" * 400 + "!",
    "A" * 200 + "b" * 200 + " ",
    "1" * 300 + "x",
    " " * 300 + "a",
    "\n" * 200 + "\t" * 100 + "!?" * 100,
    "ab " * 200 + "é" * 100,
)

#: A real tokenizer gives at most four tokens for a character (its bytes), and some around the text.
MOST_PER_CHARACTER, MOST_AROUND = 16, 1_000

#: Most characters of a rendered conversation; the longest system prompts in templates have a few thousand.
MOST_RENDERED = 100_000

#: Most tokens that are added to a vocabulary; transformers takes each of them up one by one.
MOST_ADDED = 20_000


def find_tokenizer_fault(path: str) -> str:
    """Use a tokenizer of the ``tokenizers`` library on a few texts; says what is wrong, or nothing."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(path)
    added = len(tokenizer.get_added_tokens_decoder())
    if added > MOST_ADDED:
        return f"it adds {added:,} tokens to its vocabulary; at most {MOST_ADDED:,} are added one by one"
    for text in TEXTS:
        most = MOST_PER_CHARACTER * len(text) + MOST_AROUND
        normalizer = tokenizer.normalizer
        if normalizer is not None:
            length = len(normalizer.normalize_str(text))
            if length > most:
                return f"its normalizer makes {length:,} characters of {len(text)}"
        ids = tokenizer.encode(text, add_special_tokens=True).ids
        if len(ids) > most:
            return f"it makes {len(ids):,} tokens of {len(text)} characters"
        written = len(tokenizer.decode(ids, skip_special_tokens=False))
        if written > 100 * most:  # special tokens may have long names
            return f"its decoder writes {written:,} characters for {len(ids):,} tokens"
    return ""


def find_template_fault(template: str) -> str:
    """Render a chat template for short conversations in jinja's sandbox; says what is wrong, or nothing."""
    import jinja2
    import jinja2.ext
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
    )

    def refuse(message: str) -> None:
        raise jinja2.TemplateError(message)

    environment.globals.update(raise_exception=refuse, strftime_now=lambda form: form)
    made = environment.from_string(template)
    user = {"role": "user", "content": TEXTS[0]}
    conversations: tuple[list[dict[str, str]], ...] = (
        [user],
        [user, {"role": "assistant", "content": "answer"}],
        [{"role": "system", "content": "You are a helpful assistant."}, user],
        # What breadth itself renders first, to find where an answer ends.
        [{"role": "user", "content": "prompt"}],
        [{"role": "user", "content": "prompt"}, {"role": "assistant", "content": "answer"}],
    )
    for messages in conversations:
        size = 0
        try:
            for part in made.generate(
                messages=messages, add_generation_prompt=len(messages) == 1, enable_thinking=False,
                bos_token="<s>", eos_token="</s>", pad_token="<pad>", unk_token="<unk>", tools=None, documents=None,
            ):  # fmt: skip
                size += len(part)
                if size > MOST_RENDERED:
                    return f"it writes more than {MOST_RENDERED:,} characters around a short text"
        except MemoryError:
            raise
        except Exception:  # a template may refuse a conversation; whoever uses it is told
            continue
    return ""


def _limit(memory: int, seconds: int) -> None:
    """Set the limits of this process, where the system has such limits."""
    try:
        import resource
    except ImportError:  # Windows, where the parent's clock is the only limit
        return
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))


def main() -> None:
    """Carry out what standard input asks for."""
    request: dict[str, Any] = json.loads(sys.stdin.buffer.readline())
    sys.path[:] = request["path"]
    _limit(request["memory"], request["seconds"])
    try:
        if request["kind"] == "tokenizer":
            fault = find_tokenizer_fault(request["subject"])
        else:
            fault = find_template_fault(request["subject"])
    except MemoryError:
        fault = "memory"
    except BaseException as error:  # a panic of a Rust library is none of Python's usual exceptions
        lines = str(error).strip().splitlines()
        fault = lines[0][:300] if lines else type(error).__name__
    print(json.dumps({"fault": fault}), flush=True)


if __name__ == "__main__":
    main()
