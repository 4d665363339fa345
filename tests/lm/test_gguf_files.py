import struct

import pytest

from breadth.errors import InputError
from breadth.lm.fetch import convert, report_nothing


def put(at, form, value):
    """Write a number over what stands at a place of the file, counted from the end of a text in it if it is one."""

    def change(content):
        place = at if isinstance(at, int) else content.index(at) + len(at)
        new = struct.pack(form, value)
        return content[:place] + new + content[place + len(new) :]

    return change


HEADERS = {
    "nothing": lambda content: b"",
    "another magic": put(0, "<I", 7),
    "a version to come": put(4, "<I", 99),
    "a count of tensors": put(8, "<Q", 1 << 60),
    "a few more tensors": put(8, "<Q", 3_000),
    "a count of settings": put(16, "<Q", 1 << 60),
    "the length of a name": put(24, "<Q", 1 << 62),
    "an unknown kind": put(b"llama.block_count", "<I", 77),
    "the kind of a list": put(b"tokenizer.ggml.tokens\x09\0\0\0", "<I", 9),
    "the length of a list": put(b"tokenizer.ggml.tokens\x09\0\0\0\x08\0\0\0", "<Q", 1 << 60),
    "the length of a list of numbers": put(b"tokenizer.ggml.token_type\x09\0\0\0\x05\0\0\0", "<Q", 1 << 60),
    "a billion layers": put(b"llama.block_count\x04\0\0\0", "<I", 1_000_000_000),
    "a width of a billion": put(b"llama.embedding_length\x04\0\0\0", "<I", 1_000_000_000),
    "the dimensions of a tensor": put(b"token_embd.weight", "<I", 1 << 31),
    "the shape of a tensor": put(b"token_embd.weight\x02\0\0\0", "<Q", 1 << 60),
    "a cut in the header": lambda content: content[:500],
}


@pytest.mark.parametrize("case", HEADERS)
def test_headers_that_lie(gguf_file, tmp_path, case):
    path = tmp_path / "model.gguf"
    path.write_bytes(HEADERS[case](gguf_file))
    with pytest.raises(InputError, match=r"model\.gguf"):
        convert(path, tmp_path / "made", needs_bos=False, progress=report_nothing)


def test_the_good_one_is_converted(gguf_file, tmp_path):
    path = tmp_path / "model.gguf"
    path.write_bytes(gguf_file)
    (tmp_path / "made").mkdir()
    convert(path, tmp_path / "made", needs_bos=False, progress=report_nothing)
    assert (tmp_path / "made" / "model.safetensors").is_file()
