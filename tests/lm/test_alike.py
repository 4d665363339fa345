import json
import shutil

import pytest

from breadth.errors import InputError
from breadth.lm.alike import check_alike
from breadth.lm.checkpoints import Checkpoint, find_checkpoints


def test_checkpoints_with_other_tokenizers(tmp_path, whole):
    own = shutil.copytree(whole, tmp_path / "whole")
    path = own / "checkpoint-20" / "tokenizer.json"
    tokenizer = json.loads(path.read_text())
    path.write_text(json.dumps({**tokenizer, "truncation": {"max_length": 9}}))  # by how it was last used
    check_alike(find_checkpoints(["whole"], tmp_path), own_tokenizer=True)
    vocabulary = tokenizer["model"]["vocab"]
    one, other = list(vocabulary)[30:32]
    vocabulary[one], vocabulary[other] = vocabulary[other], vocabulary[one]
    path.write_text(json.dumps(tokenizer))
    check_alike(find_checkpoints(["whole"], tmp_path))
    with pytest.raises(
        InputError, match=r"checkpoint-10 and .*checkpoint-20 have different tokenizers; give the model"
    ):
        check_alike(find_checkpoints(["whole"], tmp_path), own_tokenizer=True)
    path.unlink()  # one without a tokenizer uses that of the others
    check_alike(find_checkpoints(["whole"], tmp_path), own_tokenizer=True)


def test_checkpoints_that_compute_with_other_settings(tmp_path, whole):
    own = shutil.copytree(whole, tmp_path / "whole")
    path = own / "checkpoint-20" / "config.json"
    config = json.loads(path.read_text())
    path.write_text(json.dumps(config | {"transformers_version": "0", "use_cache": False}))
    check_alike(find_checkpoints(["whole"], tmp_path))
    path.write_text(json.dumps(config | {"rms_norm_eps": 0.5}))
    with pytest.raises(InputError, match=r"have different settings: rms_norm_eps is .* and 0.5; evaluate them as two"):
        check_alike(find_checkpoints(["whole"], tmp_path))


def test_checkpoints_of_different_shapes(tmp_path, tiny_base, adapters, whole, write_adapters):
    other = write_adapters(tiny_base, tmp_path / "wide", steps=(40,), rank=8)
    narrow, wide = Checkpoint(10, str(adapters / "checkpoint-10")), Checkpoint(40, str(other / "checkpoint-40"))
    with pytest.raises(InputError, match=r"have different shapes: .*lora_A.weight is \[4, 32\] and \[8, 32\]"):
        check_alike([narrow, wide])
    with pytest.raises(InputError, match="one holds an adapter, the other a whole model"):
        check_alike([narrow, Checkpoint(40, str(whole / "checkpoint-10"))])
    scaled = write_adapters(tiny_base, tmp_path / "scaled", steps=(40,), lora_alpha=32)
    with pytest.raises(InputError, match="lora_alpha is 16 and 32"):
        check_alike([narrow, Checkpoint(40, str(scaled / "checkpoint-40"))])
