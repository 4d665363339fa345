import json
import shutil
import subprocess
import sys

import pytest
import torch

from breadth.errors import InputError
from breadth.lm.loading import load_model, locate
from breadth.lm.tiny import FAMILIES, write_tiny_model


@pytest.fixture
def copy(tiny_model_dir, tmp_path):
    """A copy of the tiny model that a test may damage."""
    return shutil.copytree(tiny_model_dir, tmp_path / "model")


def refusal(name, **options):
    with pytest.raises(InputError) as caught:
        load_model(str(name), **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_where_a_name_leads(tiny_model_dir, monkeypatch, tmp_path):
    assert locate(str(tiny_model_dir)) == (str(tiny_model_dir), f"{tiny_model_dir}: local directory")
    assert locate("facebook/opt-125m") == ("facebook/opt-125m", "facebook/opt-125m: Hugging Face Hub id")
    monkeypatch.setenv("BREADTH_CACHE", str(tmp_path))
    source, found = locate("gemma3-270m")
    assert source == str(tmp_path / "models" / "gemma3-270m")
    assert "breadth get gemma3-270m" in found


@pytest.mark.parametrize("name", ["gema3-270m", "./nowhere", "a/b/c", "", "two words/x"])
def test_a_name_that_leads_nowhere(name):
    with pytest.raises(InputError, match=r"Built-in models: smollm2-135m, gemma3-270m"):
        locate(name)


def test_a_near_name_is_suggested():
    with pytest.raises(InputError, match="Did you mean gemma3-270m"):
        locate("gema3-270m")


def test_a_file_is_not_a_model(tiny_model_dir):
    with pytest.raises(InputError, match="is a file; give the directory"):
        locate(str(tiny_model_dir / "config.json"))


@pytest.mark.parametrize(
    "name", ["w.bin", "../model.safetensors", "/etc/passwd.safetensors", "pytorch_model.pt", 3], ids=str
)
def test_an_index_that_names_anything_but_safetensors_is_refused(copy, name):
    (copy / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": {"w": name}}))
    assert f"names {name!r} for weights" in refusal(copy)


@pytest.mark.parametrize(("value", "said"), [(float("nan"), "not finite"), (float("inf"), "not finite"), (0, "all 0")])
def test_weights_that_cannot_be_right_are_refused(copy, value, said):
    from safetensors.torch import load_file, save_file

    weights = load_file(copy / "model.safetensors")
    name = next(name for name, weight in weights.items() if "q_proj.weight" in name)
    weights[name][:] = value
    save_file(weights, copy / "model.safetensors", metadata={"format": "pt"})
    message = refusal(copy)
    assert name in message
    assert said in message


def test_a_local_directory(tiny_model_dir, capfd):
    lm = load_model(str(tiny_model_dir), device="cpu")
    assert (lm.device, lm.dtype, lm.bos) == ("cpu", "float32", False)
    assert not lm.model.training
    assert lm.tokenizer.decode(lm.encode("The cat sat? Yes")) == "The cat sat? Yes"
    assert [len(lm.encode(answer)) for answer in (" Yes", " No")] == [1, 1]
    assert any(note.startswith("float32: ") for note in lm.notes)
    assert any(note.startswith("device cpu: ") for note in lm.notes)
    assert capfd.readouterr() == ("", "")


def test_precision_as_asked(tiny_model_dir):
    lm = load_model(str(tiny_model_dir), dtype="bfloat16", device="cpu")
    assert lm.model.dtype == torch.bfloat16
    assert "bfloat16: as requested" in lm.notes


@pytest.mark.parametrize("family", FAMILIES)
def test_every_tiny_family_answers(family, tmp_path):
    lm = load_model(str(write_tiny_model(tmp_path / family, family)), device="cpu")
    ids = lm.encode("The cat sat on the mat. Yes or No?")
    assert lm.bos == FAMILIES[family]
    assert ids.count(lm.tokenizer.bos_token_id) == int(lm.bos)
    logits = lm.model(input_ids=torch.tensor([ids])).logits[0, -1]
    assert logits.shape == (len(lm.tokenizer),)
    assert logits.std() > 0.05


def test_a_tiny_model_depends_on_its_seed_alone(tmp_path):
    def written(name, seed):
        folder = write_tiny_model(tmp_path / name, seed=seed)
        return {path.name: path.read_bytes() for path in folder.iterdir()}

    first = written("a", 0)
    torch.rand(7)
    assert written("b", 0) == first
    assert written("c", 1)["model.safetensors"] != first["model.safetensors"]
    with pytest.raises(InputError, match="'bert' is not one of llama"):
        write_tiny_model(tmp_path / "d", "bert")


def test_bos_is_never_doubled(tmp_path):
    lm = load_model(str(write_tiny_model(tmp_path, "gemma3")), device="cpu")
    assert lm.encode("<bos>The cat") == lm.encode("The cat") == lm.tokenizer("The cat")["input_ids"]
    assert lm.encode("") == [lm.tokenizer.bos_token_id]


def test_a_tokenizer_that_doubles_bos_is_refused(tmp_path):
    folder = write_tiny_model(tmp_path, "gemma3")
    path = folder / "tokenizer.json"
    content = json.loads(path.read_text())
    single = content["post_processor"]["single"]
    content["post_processor"]["single"] = [single[0], *single]
    path.write_text(json.dumps(content))
    assert "adds the BOS token twice" in refusal(folder)


def test_no_config(copy):
    (copy / "config.json").unlink()
    assert "has no config.json" in refusal(copy)
    (copy / "adapter_config.json").write_text("{}")
    assert "contains an adapter" in refusal(copy)


@pytest.mark.parametrize("text", ["{ broken", "[]", "{}", '{"model_type": "no-such-thing"}', '{"model_type": "bert"}'])
def test_broken_config(copy, text):
    (copy / "config.json").write_text(text)
    assert str(copy) in refusal(copy)


def test_code_of_a_repository_is_not_run(copy):
    (copy / "config.json").write_text(
        json.dumps({"model_type": "own", "auto_map": {"AutoConfig": "own.C", "AutoModelForCausalLM": "own.M"}})
    )
    (copy / "own.py").write_text("raise SystemExit('was run')\n")
    assert str(copy) in refusal(copy)


def test_no_tokenizer(copy):
    for path in copy.glob("tokenizer*"):
        path.unlink()
    assert "has no tokenizer" in refusal(copy)


@pytest.mark.parametrize("change", [{}, {"model": {"type": "Other"}}, {"pre_tokenizer": 7}])
def test_broken_tokenizer(copy, change):
    path = copy / "tokenizer.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change if change else {"version": "1.0"}))
    assert "tokenizer cannot be loaded" in refusal(copy)


def test_pickled_weights_are_refused(copy):
    (copy / "model.safetensors").unlink()
    assert "has no weights" in refusal(copy)
    torch.save({}, copy / "pytorch_model.bin")
    assert "pickled" in refusal(copy)


def test_truncated_weights(copy):
    path = copy / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-1000])
    assert "cannot be loaded" in refusal(copy)


def test_missing_weights_are_not_made_up(copy):
    from safetensors.torch import load_file, save_file

    weights = load_file(copy / "model.safetensors")
    del weights["model.layers.2.self_attn.q_proj.weight"]
    save_file(weights, copy / "model.safetensors", metadata={"format": "pt"})
    assert "model.layers.2.self_attn.q_proj.weight" in refusal(copy)


def test_weights_of_another_shape(copy):
    config = json.loads((copy / "config.json").read_text())
    (copy / "config.json").write_text(json.dumps(config | {"intermediate_size": 48}))
    assert str(copy) in refusal(copy)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"dtype": "int3"}, "dtype: 'int3' is not one of"),
        ({"device": "toaster"}, "device: 'toaster' is not a device"),
        ({"device": "meta"}, "device: 'meta' is not supported"),
        ({"device": "cpu", "quantise": "4bit"}, "quantise: 4bit needs a CUDA GPU"),
        ({"device": "cpu", "quantise": "2bit"}, "quantise: '2bit' is not one of 4bit, 8bit"),
    ],
)
def test_options_that_cannot_be(tiny_model_dir, options, said):
    assert said in refusal(tiny_model_dir, **options)


@pytest.mark.skipif(torch.cuda.is_available(), reason="for a machine without a GPU")
def test_a_gpu_that_is_not_there(tiny_model_dir):
    assert "needs a CUDA GPU" in refusal(tiny_model_dir, device="cuda:0")
    assert "needs a CUDA GPU" in refusal(tiny_model_dir, quantise="8bit")


def test_the_hub_out_of_reach(tmp_path):
    code = (
        "from breadth.lm.loading import load_model\n"
        "from breadth.errors import InputError\n"
        "import time; began = time.perf_counter()\n"
        "try: load_model('nobody/nothing')\n"
        "except InputError as error: print(time.perf_counter() - began, error)\n"
    )
    import os

    environment = {**os.environ, "HF_ENDPOINT": "http://127.0.0.1:9", "HF_HOME": str(tmp_path), "HF_HUB_OFFLINE": "0"}
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    assert out.stderr == ""
    (line,) = out.stdout.splitlines()
    assert "http://127.0.0.1:9 cannot be reached" in line
    assert "give its directory, or use a built-in model" in line
    # Five retries with pauses would take over twenty seconds; most of this time is spent importing torch.
    assert float(line.split()[0]) < 15


def test_without_the_extra():
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "from breadth.lm.loading import load_model\n"
        "try: load_model('smollm2-135m')\n"
        "except Exception as error: print(type(error).__name__, error)\n"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.startswith("InputError")
    assert "install with: pip install 'breadth[lm]'" in out.stdout


def test_smollm2_knows_a_little(smollm2, capfd):
    lm = load_model("smollm2-135m", device="cpu")
    assert not lm.bos
    assert next_word(lm, "The opposite of hot is") == " cold"
    assert lm.model.get_input_embeddings().weight is lm.model.get_output_embeddings().weight
    assert capfd.readouterr().err == ""


def test_gemma3_knows_a_little(gemma3):
    lm = load_model("gemma3-270m", device="cpu")
    assert lm.bos
    text = "In the twelfth century the bishop granted the town market rights, and merchants began to trade in salt."
    ids = lm.encode(text)
    assert ids[0] == lm.tokenizer.bos_token_id == 2
    assert ids.count(2) == 1
    assert ids == lm.tokenizer(text)["input_ids"]
    # Without BOS this model is far worse at plain English (2.4 and 4.9 nats a token on a paragraph).
    assert loss(lm, ids) < loss(lm, ids[1:]) - 1
    assert next_word(lm, "The opposite of hot is") == " cold"


def loss(lm, ids):
    with torch.no_grad():
        return lm.model(input_ids=torch.tensor([ids]), labels=torch.tensor([ids])).loss.item()


def next_word(lm, prompt):
    with torch.no_grad():
        return lm.tokenizer.decode(
            [lm.model(input_ids=torch.tensor([lm.encode(prompt)])).logits[0, -1].argmax().item()]
        )
