"""Pickled weights: converted once and for all, and refused with nothing run if they hold anything but tensors."""

import io
import json
import os
import pickle
import shutil
import signal
import subprocess
import sys
import tarfile
import zipfile
from collections import OrderedDict
from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import load_file

from breadth.errors import InputError
from breadth.lm.fetch import Stage
from breadth.lm.loading import load_model
from breadth.lm.models import cache_root, fault_of
from breadth.lm.pickled import convert_pickled, pickled_paths, read_tensors, weight_size

from ..families import write_family


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """An empty cache of its own."""
    monkeypatch.setenv("BREADTH_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture(scope="module")
def opt(tmp_path_factory):
    """A tiny OPT as the Hub has it."""
    return write_family(tmp_path_factory.mktemp("pickled") / "opt", "opt", pickled=True)


@pytest.fixture
def folder(opt, tmp_path):
    """A copy of it that a test may change."""
    return shutil.copytree(opt, tmp_path / "model")


def tensors_of(folder):
    return torch.load(folder / "pytorch_model.bin", weights_only=True)


def refusal(folder, action=None):
    with pytest.raises(InputError) as caught:
        action() if action else load_model(str(folder), device="cpu", weights="bin")
    assert "\n" not in str(caught.value)
    return str(caught.value)


def leftovers():
    converted = cache_root() / "converted"
    if not converted.is_dir():
        return []
    return [path.name for path in converted.iterdir() if not path.name.endswith(".lock")]


def write_shards(folder, count):
    """Cut the weights into files, as large models have them."""
    tensors = tensors_of(folder)
    names = list(tensors)
    places = {}
    for number in range(count):
        file = f"pytorch_model-{number + 1:05d}-of-{count:05d}.bin"
        part = {name: tensors[name].clone() for name in names[number::count]}
        torch.save(part, folder / file)
        places |= dict.fromkeys(part, file)
    (folder / "pytorch_model.bin").unlink()
    (folder / "pytorch_model.bin.index.json").write_text(json.dumps({"metadata": {}, "weight_map": places}))
    return places


class TestHostile:
    """Files that would run code, or that declare what they cannot hold. The mark is what their code would leave."""

    @pytest.fixture
    def mark(self, tmp_path):
        path = tmp_path / "code-ran"
        yield path
        assert not path.exists()

    @pytest.fixture
    def refuse(self, folder, mark):
        """Put bytes in the place of the weights, load them, and return the message."""

        def check(content):
            (folder / "pytorch_model.bin").write_bytes(content)
            message = refusal(folder)
            assert message.startswith(str(folder / "pytorch_model.bin"))
            assert leftovers() == []
            return message

        return check

    def test_a_command_of_the_shell(self, refuse, mark):
        class Evil:
            def __reduce__(self):
                return os.system, (f"touch {mark}",)

        self.proven(saved({"w": Evil()}), mark)
        for content in (saved({"w": Evil()}), legacy({"w": Evil()}), saved(Evil()), pickle.dumps(Evil(), 2)):
            assert "would call 'posix.system'" in refuse(content)

    def test_the_restricted_loader_alone(self, refuse, mark, monkeypatch):
        """Should the look at the instructions ever miss something, torch still refuses it."""

        class Evil:
            def __reduce__(self):
                return os.system, (f"touch {mark}",)

        monkeypatch.setattr("breadth.lm.pickled._check_instructions", lambda path, program: None)
        for content in (saved({"w": Evil()}), legacy({"w": Evil()})):
            assert "refused by torch's restricted loader" in refuse(content)

    @staticmethod
    def proven(content, mark):
        """The file is what it is said to be: an unrestricted loader runs it."""
        torch.load(io.BytesIO(content), weights_only=False)
        assert mark.exists()
        mark.unlink()

    @pytest.mark.parametrize("name", ["eval", "exec", "getattr", "open", "bytearray", "set"])
    def test_a_builtin(self, refuse, mark, name):
        arguments = {"eval": (f"open({str(mark)!r}, 'w')",), "open": (str(mark), "w"), "bytearray": (10,)}
        program = {"w": Call(f"builtins\n{name}\n", arguments.get(name, ("x",)))}
        assert f"would call 'builtins.{name}'" in refuse(zipped(crafted(program)))

    def test_a_name_behind_the_memo(self, refuse, mark):
        """Protocol 4 takes names from the stack, where they may come from anywhere."""
        code = b"\x80\x04\x8c\x05posix\x94\x8c\x06system\x9400h\x00h\x01\x93"
        text = f"touch {mark}".encode()
        code += b"\x8c" + bytes([len(text)]) + text + b"\x85R."
        pickle.loads(code)
        assert mark.exists()
        mark.unlink()
        assert "(STACK_GLOBAL)" in refuse(zipped(code))
        assert "(STACK_GLOBAL)" in refuse(code)

    def test_a_function_that_was_memorised_before_it_is_called(self, refuse, mark):
        text = f"touch {mark}".encode()
        code = b"\x80\x02cposix\nsystem\nq\x000}h\x00X" + len(text).to_bytes(4, "little") + text + b"\x85R."
        pickle.loads(code)
        assert mark.exists()
        mark.unlink()
        assert "would call 'posix.system'" in refuse(zipped(code))

    def test_old_ways_to_create_an_object(self, refuse, mark):
        text = f"touch {mark}"
        inst = f"(S'{text}'\niposix\nsystem\n.".encode()
        pickle.loads(inst)
        assert mark.exists()
        mark.unlink()
        assert "(INST)" in refuse(zipped(inst))

    def test_what_a_library_has_allowed_in_this_process(self, refuse, mark):
        """torch's own list of what is safe can be added to by anybody; ours cannot."""

        class Evil:
            def __reduce__(self):
                return os.mkdir, (str(mark),)

        with torch.serialization.safe_globals([(os.mkdir, "posix.mkdir")]):
            assert "would call 'posix.mkdir'" in refuse(saved({"w": Evil()}))

    def test_a_file_within_the_file(self, refuse, mark):
        class Evil:
            def __reduce__(self):
                return os.system, (f"touch {mark}",)

        inner = saved({"w": Evil()})
        assert "would call '_codecs.encode'" in refuse(saved({"w": torch.ones(3), "more": inner}))

    def test_a_file_within_the_file_as_numbers(self, folder, mark):
        """Harmless: numbers are never unpickled, and they are no weights of the model."""

        class Evil:
            def __reduce__(self):
                return os.system, (f"touch {mark}",)

        numbers = torch.frombuffer(bytearray(saved({"w": Evil()})), dtype=torch.uint8)
        torch.save({"w": numbers}, folder / "pytorch_model.bin")
        assert "weights are missing" in refusal(folder)

    @pytest.mark.parametrize(
        "value",
        [
            {"model": {"w": torch.ones(3)}},
            {"w": torch.ones(3), "step": 3},
            {"w": torch.ones(3), "note": "text"},
            {"w": [torch.ones(3)]},
            {3: torch.ones(3)},
            {"__metadata__": torch.ones(3)},
            [torch.ones(3)],
            torch.ones(3),
            {},
            {"w": torch.ones(3).to_sparse()},
            {"w": torch.empty(3, device="meta")},
            {"w": torch.Size([1])},
            {"w": torch.float32},
        ],
        ids=lambda value: str(value)[:40].replace("\n", ""),
    )
    def test_anything_but_tensors_by_name(self, refuse, value):
        refuse(saved(value))

    def test_attributes_that_hide_methods(self, refuse):
        values = OrderedDict(w=torch.ones(3), more=3)
        values.xxxxx = {"w": torch.ones(3)}
        content = rezipped(saved(values), lambda code: code.replace(b"xxxxx", b"items"))
        assert torch.load(io.BytesIO(content), weights_only=True).items == {"w": pytest.approx(torch.ones(3))}
        assert "holds a int under the name 'more'" in refuse(content)

    def test_a_tensor_that_is_one_number_repeated(self, refuse):
        message = refuse(saved({"w": torch.ones(1).expand(10**12)}))
        assert "4,000,000,000,000 bytes" in message

    @pytest.mark.parametrize("count", [10**6, 10**12, 2**62], ids=str)
    def test_a_tensor_beyond_the_end_of_the_file(self, refuse, count):
        """Neither in a file that stays on the disk nor in one that is read."""
        small = {"w": torch.ones(4)}
        refuse(rezipped(saved(small), lambda code: with_size(code, count)))
        refuse(with_size(legacy(small), count))

    def test_many_views_of_a_few_numbers(self, refuse):
        numbers = torch.ones(1000)
        refuse(saved({f"w{k}": numbers[k:] for k in range(100)}))

    def test_a_compressed_archive(self, refuse):
        """A few kilobytes that become gigabytes."""
        assert "is compressed" in refuse(rezipped(saved({"w": torch.zeros(10**6)}), compression=zipfile.ZIP_DEFLATED))

    def test_two_parts_of_one_name(self, refuse):
        with pytest.warns(UserWarning, match="Duplicate name"):
            content = rezipped(saved({"w": torch.ones(3)}), twice=True)
        assert "two parts of one name" in refuse(content)

    def test_a_script_of_torch(self, refuse):
        module = torch.jit.trace(torch.nn.Linear(2, 2), torch.ones(1, 2))
        out = io.BytesIO()
        torch.jit.save(module, out)
        refuse(out.getvalue())

    def test_a_tar_archive(self, refuse, mark):
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w") as archive:
            link = tarfile.TarInfo("storages")
            link.type, link.linkname = tarfile.SYMTYPE, str(mark)
            archive.addfile(link)
        assert "is a tar archive" in refuse(out.getvalue())

    @pytest.mark.parametrize("share", [0.0, 0.001, 0.3, 0.9, 0.999])
    @pytest.mark.parametrize("form", ["zip", "legacy"])
    def test_a_file_that_was_cut_off(self, refuse, opt, share, form):
        whole = (opt / "pytorch_model.bin").read_bytes() if form == "zip" else legacy(tensors_of(opt))
        assert "cannot be read" in refuse(whole[: int(share * len(whole))])

    def test_something_else(self, refuse):
        refuse(b"version https://git-lfs.github.com/spec/v1\n")
        refuse(b"PK\x03\x04" + bytes(100))
        refuse(bytes(1000))


@pytest.mark.parametrize(
    "name", ["../pytorch_model.bin", "/etc/passwd.bin", "a/b.bin", "model.pt", "model.safetensors", "x.py", 3, None, ""]
)
def test_an_index_that_leads_elsewhere(folder, name):
    (folder / "pytorch_model.bin.index.json").write_text(json.dumps({"weight_map": {"w": name}}))
    assert f"names {name!r} for weights" in refusal(folder)


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"weight_map": {}}', '{"weight_map": []}', "[" * 100_000])
def test_an_index_that_says_nothing(folder, text):
    (folder / "pytorch_model.bin.index.json").write_text(text)
    assert "pytorch_model.bin.index.json: " in refusal(folder)


def test_an_index_behind_a_link(folder, tmp_path):
    """As in the Hub's cache: what it names is looked for beside the link."""
    places = write_shards(folder, 2)
    elsewhere = tmp_path / "blobs" / "index"
    elsewhere.parent.mkdir()
    (folder / "pytorch_model.bin.index.json").rename(elsewhere)
    (folder / "pytorch_model.bin.index.json").symlink_to(elsewhere)
    assert [path.parent for path in pickled_paths(folder)] == [folder, folder]
    elsewhere.write_text(json.dumps({"weight_map": dict.fromkeys(places, "../secret.bin")}))
    assert "names '../secret.bin' for weights" in refusal(folder)


def test_an_index_of_files_that_are_not_there(folder):
    write_shards(folder, 2)
    (folder / "pytorch_model-00002-of-00002.bin").unlink()
    assert "names pytorch_model-00002-of-00002.bin, which is not there" in refusal(folder)


def test_two_shards_with_one_tensor(folder):
    write_shards(folder, 2)
    shutil.copyfile(folder / "pytorch_model-00001-of-00002.bin", folder / "pytorch_model-00002-of-00002.bin")
    assert "which another file of" in refusal(folder)
    assert leftovers() == []


def test_pickles_are_not_read_unless_asked_for(folder):
    with pytest.raises(InputError, match=r"pickled, which can run code.* set weights: bin for this model"):
        load_model(str(folder), device="cpu")
    assert leftovers() == []


def test_a_conversion(folder):
    model = load_model(str(folder), device="cpu", weights="bin")
    (name,) = leftovers()
    made = cache_root() / "converted" / name
    assert any(str(made) in note for note in model.notes)
    before, after = tensors_of(folder), load_file(made / "model.safetensors")
    # The head is the embedding, so it is written once; nothing else is left out or changed.
    assert set(before) - set(after) == {"lm_head.weight"}
    for key, tensor in after.items():
        assert torch.equal(tensor, before[key])
        assert tensor.dtype == before[key].dtype
    assert model.model.get_output_embeddings().weight is model.model.get_input_embeddings().weight


def test_only_what_belongs_to_a_model_is_copied(folder):
    for name in ("modeling_own.py", "training_args.bin", "optimizer.pt", "adapter_config.json", "README.md"):
        (folder / name).write_text("{}")
    (folder / "chat_template.jinja").write_text("{{ messages }}")
    (folder / "LICENSE").write_text("Do as you like.")
    made = {path.name for path in convert_pickled(folder).iterdir()}
    assert {"config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json"} <= made
    assert {"chat_template.jinja", "LICENSE", "model.safetensors", "breadth.json"} <= made
    assert all(name.endswith((".json", ".jinja", ".safetensors", "LICENSE")) for name in made)
    assert "adapter_config.json" not in made


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_the_number_format_is_kept(folder, dtype):
    torch.save({name: tensor.to(dtype) for name, tensor in tensors_of(folder).items()}, folder / "pytorch_model.bin")
    assert {tensor.dtype for tensor in load_file(convert_pickled(folder) / "model.safetensors").values()} == {dtype}


def test_shards_become_shards(folder, opt):
    whole = load_model(str(opt), device="cpu", weights="bin").model.state_dict()
    places = write_shards(folder, 3)
    made = convert_pickled(folder)
    assert len(list(made.glob("model-*-of-00003.safetensors"))) == 3
    index = json.loads((made / "model.safetensors.index.json").read_text())
    assert set(index["weight_map"]) == set(places)
    parts = load_model(str(folder), device="cpu", weights="bin").model.state_dict()
    assert all(torch.equal(parts[name], whole[name]) for name in whole)


def test_a_shard_is_in_memory_by_itself(folder, monkeypatch):
    """Each is read after the one before was written."""
    write_shards(folder, 3)
    order = []
    read, save = read_tensors, load_file.__globals__["save_file"]
    monkeypatch.setattr("breadth.lm.pickled.read_tensors", lambda path: order.append("read") or read(path))
    monkeypatch.setattr(
        "safetensors.torch.save_file", lambda *values, **keys: order.append("write") or save(*values, **keys)
    )
    convert_pickled(folder)
    assert order == ["read", "write"] * 3


def test_tensors_that_share_their_numbers_without_being_tied(folder):
    """A model that does not tie them gets a copy of each; views and transposed tensors are written as they look."""
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"tie_word_embeddings": False}))
    tensors = tensors_of(folder)
    numbers = torch.arange(12.0).reshape(3, 4)
    tensors |= {"extra.whole": numbers, "extra.turned": numbers.T, "extra.part": numbers[1:], "extra.none": numbers[:0]}
    torch.save(tensors, folder / "pytorch_model.bin")
    after = load_file(convert_pickled(folder) / "model.safetensors")
    assert set(after) == set(tensors)
    assert all(torch.equal(after[name], tensors[name]) for name in after)


def test_a_head_that_shares_with_something_else_is_kept(folder):
    tensors = tensors_of(folder)
    tensors["lm_head.weight"] = tensors["extra"] = torch.randn(tensors["lm_head.weight"].shape)
    torch.save(tensors, folder / "pytorch_model.bin")
    after = load_file(convert_pickled(folder) / "model.safetensors")
    assert torch.equal(after["lm_head.weight"], tensors["extra"])


def test_names_without_the_head(folder):
    """As a base model is saved: names lack their first part."""
    tensors = {name.removeprefix("model."): tensor for name, tensor in tensors_of(folder).items()}
    torch.save(tensors, folder / "pytorch_model.bin")
    assert "lm_head.weight" not in load_file(convert_pickled(folder) / "model.safetensors")
    model = load_model(str(folder), device="cpu", weights="bin").model
    assert torch.equal(model.lm_head.weight, tensors["lm_head.weight"])


def test_parameters_and_old_files(folder):
    tensors = tensors_of(folder)
    (folder / "pytorch_model.bin").write_bytes(legacy({k: torch.nn.Parameter(v) for k, v in tensors.items()}))
    after = load_file(convert_pickled(folder) / "model.safetensors")
    assert all(torch.equal(after[name], tensors[name]) for name in after)


def test_it_is_converted_once(folder):
    stages = []
    first = convert_pickled(folder, progress=lambda *step: stages.append(step))
    assert {stage for stage, _, _ in stages} == {Stage.WRITING}
    before = (first / "model.safetensors").stat().st_mtime_ns
    assert convert_pickled(folder, progress=lambda *step: pytest.fail(str(step))) == first
    assert (first / "model.safetensors").stat().st_mtime_ns == before
    assert [path.name for path in first.parent.iterdir() if path.name.endswith(".partial")] == []


def test_another_source_is_another_conversion(folder):
    first = convert_pickled(folder)
    tensors = tensors_of(folder)
    tensors["model.decoder.final_layer_norm.bias"] += 1
    torch.save(tensors, folder / "pytorch_model.bin")
    second = convert_pickled(folder)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"dropout": 0.5}))
    third = convert_pickled(folder)
    assert len({first, second, third}) == 3
    assert json.loads((third / "config.json").read_text())["dropout"] == 0.5


def test_a_copy_elsewhere_is_the_same_conversion(folder, tmp_path):
    assert convert_pickled(shutil.copytree(folder, tmp_path / "copy")) == convert_pickled(folder)


def test_a_damaged_conversion_is_made_again(folder):
    made = convert_pickled(folder)
    weights = made / "model.safetensors"
    whole = weights.read_bytes()
    weights.write_bytes(whole[:100])
    warnings = []
    assert convert_pickled(folder, warn=warnings.append) == made
    assert weights.read_bytes() == whole
    assert len(warnings) == 1
    assert str(made) in warnings[0]


def test_a_source_that_changes_meanwhile(folder, monkeypatch):
    def read_and_change(path):
        tensors = read_tensors(path)
        (folder / "config.json").write_text((folder / "config.json").read_text() + " ")
        return tensors

    monkeypatch.setattr("breadth.lm.pickled.read_tensors", read_and_change)
    assert "changed while it was converted" in refusal(folder)
    assert leftovers() == []


def test_a_full_disk(folder, monkeypatch):
    monkeypatch.setattr("shutil.disk_usage", lambda path: SimpleNamespace(free=10))
    assert "set BREADTH_CACHE to another directory" in refusal(folder)


def test_a_cache_that_cannot_be_written(folder, cache):
    cache.write_text("a file")
    assert "could not be converted into" in refusal(folder)


CHILD = """
import sys, time
from pathlib import Path
import breadth.lm.pickled as pickled
real = getattr(pickled, sys.argv[2])
def stop(*arguments):
    result = real(*arguments)
    print("there", flush=True)
    time.sleep(60)
    return result
if sys.argv[2] != "none":
    setattr(pickled, sys.argv[2], stop)
pickled.convert_pickled(Path(sys.argv[1]))
"""


@pytest.mark.parametrize("point", ["_write_weights", "flush_files", "flush_directory"])
def test_a_killed_conversion_leaves_nothing_half(folder, point):
    child = subprocess.Popen([sys.executable, "-c", CHILD, str(folder), point], stdout=subprocess.PIPE, text=True)
    try:
        assert child.stdout.readline() == "there\n"
    finally:
        os.kill(child.pid, signal.SIGKILL)
        child.wait()
        child.stdout.close()
    whole = [name for name in leftovers() if not name.startswith(".")]
    assert whole == [] or (point == "flush_directory" and fault_of(cache_root() / "converted" / whole[0], True) is None)
    made = convert_pickled(folder)
    assert fault_of(made, whole=True) is None
    assert leftovers() == [made.name]


def test_safetensors_come_first(folder, opt):
    tensors = tensors_of(folder)
    (folder / "pytorch_model.bin").write_bytes(b"whatever")
    shutil.copyfile(convert_pickled(opt) / "model.safetensors", folder / "model.safetensors")
    model = load_model(str(folder), device="cpu", weights="bin")
    assert any("weights: bin changes nothing" in note for note in model.notes)
    name = "model.decoder.final_layer_norm.bias"
    assert torch.equal(model.model.state_dict()[name], tensors[name])


def test_where_there_is_nothing_to_convert(folder):
    assert "built-in model" in refusal("smollm2-135m", lambda: load_model("smollm2-135m", weights="bin"))
    assert "weights: 'pickle' is not one of" in refusal(folder, lambda: load_model(str(folder), weights="pickle"))
    (folder / "pytorch_model.bin").rename(folder / "model.pt")
    assert "has no weights" in refusal(folder)


def test_a_config_that_is_wrong_is_named_as_the_user_knows_it(folder):
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"ffn_dim": 48}))
    assert refusal(folder).startswith(f"{folder}: ")
    (folder / "config.json").write_text("{")
    assert refusal(folder).startswith(f"{folder}/config.json: ")


def test_the_size_of_weights(folder, opt):
    size = (folder / "pytorch_model.bin").stat().st_size
    assert (weight_size(folder), weight_size(folder, "bin")) == (0, size)
    write_shards(folder, 2)
    assert weight_size(folder, "bin") == sum(path.stat().st_size for path in folder.glob("*.bin"))
    made = convert_pickled(opt)
    assert weight_size(made) == weight_size(made, "bin") == (made / "model.safetensors").stat().st_size


class TestHub:
    """A model of the Hub, with the Hub's local cache as it is on the disk."""

    @pytest.fixture
    def hub(self, opt, tmp_path, monkeypatch):
        """Put files of a model into the Hub's cache; the Hub itself is out of reach."""
        from huggingface_hub import constants

        home = tmp_path / "hub"
        repository = home / "models--own--opt"
        snapshot = repository / "snapshots" / ("0" * 40)
        for folder in (repository / "refs", repository / "blobs", snapshot):
            folder.mkdir(parents=True)
        (repository / "refs" / "main").write_text("0" * 40)
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(home))
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)

        def put(source, skip=()):
            for number, path in enumerate(sorted(source.iterdir())):
                if path.name not in skip:
                    blob = repository / "blobs" / f"{number:064x}"
                    shutil.copyfile(path, blob)
                    (snapshot / path.name).symlink_to(f"../../blobs/{blob.name}")
            return snapshot

        return put

    def test_from_the_local_cache(self, hub, opt):
        hub(opt)
        model = load_model("own/opt", device="cpu", weights="bin")
        expected = load_model(str(opt), device="cpu", weights="bin").model.state_dict()
        assert all(torch.equal(weight, expected[name]) for name, weight in model.model.state_dict().items())
        assert model.name == "own/opt"

    def test_without_the_key(self, hub, opt):
        hub(opt)
        with pytest.raises(InputError, match=r"own/opt: its weights are pickled.* set weights: bin"):
            load_model("own/opt", device="cpu")

    def test_hostile_weights(self, hub, opt, tmp_path):
        folder = shutil.copytree(opt, tmp_path / "hostile")
        (folder / "pytorch_model.bin").write_bytes(zipped(b"\x80\x02cposix\nsystem\n(X\x01\x00\x00\x00xtR."))
        hub(folder)
        assert "would call 'posix.system'" in refusal("own/opt")

    def test_not_in_the_cache(self, hub, opt):
        hub(opt, skip=("config.json",))
        assert "cannot be reached (HF_HUB_OFFLINE is set)" in refusal("own/opt")

    def test_safetensors_in_the_cache(self, hub, opt, tmp_path):
        folder = shutil.copytree(opt, tmp_path / "both")
        shutil.copyfile(convert_pickled(opt) / "model.safetensors", folder / "model.safetensors")
        (folder / "pytorch_model.bin").write_bytes(b"whatever")
        hub(folder)
        assert any("weights: bin changes nothing" in note for note in load_model("own/opt", weights="bin").notes)

    def test_what_is_fetched(self, opt, monkeypatch):
        """Weights in one form and what belongs to a model; no other pickles, and no code."""
        import huggingface_hub
        from huggingface_hub.utils import filter_repo_objects

        names = [path.name for path in opt.iterdir()]
        more = [
            "flax_model.msgpack",
            "tf_model.h5",
            "own.py",
            "optimizer.bin",
            "sub/pytorch_model.bin",
            "x.pt",
            "x.pkl",
        ]
        siblings = [SimpleNamespace(rfilename=name) for name in [*names, *more]]
        info = SimpleNamespace(siblings=siblings)
        monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)
        monkeypatch.setattr(huggingface_hub.HfApi, "model_info", lambda *values, **keys: info)
        fetched = []

        def snapshot_download(name, *, allow_patterns, revision, local_files_only):
            fetched.extend(filter_repo_objects([*names, *more], allow_patterns=allow_patterns))
            assert (name, revision, local_files_only) == ("own/opt", None, False)
            return str(opt)

        monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot_download)
        load_model("own/opt", device="cpu", weights="bin")
        assert sorted(fetched) == sorted(names)


def saved(value):
    out = io.BytesIO()
    torch.save(value, out)
    return out.getvalue()


def legacy(value):
    """As torch before 1.6 wrote it."""
    out = io.BytesIO()
    torch.save(value, out, _use_new_zipfile_serialization=False)
    return out.getvalue()


class Call:
    """Stands for a function by its name and its arguments, in a program that is written by hand."""

    def __init__(self, name, arguments):
        self.name, self.arguments = name, arguments


def crafted(values):
    """A pickle of a dictionary whose values call functions."""
    code = b"\x80\x02}("
    for name, call in values.items():
        code += text_of(name) + b"c" + call.name.encode() + b"("
        for argument in call.arguments:
            code += pickle.dumps(argument, 2)[2:-1]
        code += b"tR"
    return code + b"u."


def text_of(text):
    return b"X" + len(text.encode()).to_bytes(4, "little") + text.encode()


def zipped(code):
    """An archive as torch writes it, with these instructions."""
    return rezipped(saved({"w": torch.ones(3)}), lambda _: code)


def rezipped(content, change=lambda code: code, compression=zipfile.ZIP_STORED, twice=False):
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as before, zipfile.ZipFile(out, "w", compression) as after:
        for name in before.namelist():
            part = before.read(name)
            after.writestr(name, change(part) if name.endswith("data.pkl") else part)
            if twice and name.endswith("data.pkl"):
                after.writestr(name, part)
    return out.getvalue()


def with_size(code, count):
    """Instructions for a tensor of another size than 4."""
    before, number = b"K\x04\x85", count.to_bytes(9, "little")
    assert before in code
    return code.replace(before, b"\x8a" + bytes([len(number)]) + number + b"\x85")
