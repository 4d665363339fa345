import os
import subprocess
import sys

from breadth.datasets import REGISTRY


def test_datasets_fit_the_terminal(breadth, tmp_path):
    folder = tmp_path / ("a-directory-with-a-long-name-" * 4) / "nli"
    folder.mkdir(parents=True)
    (folder / "hans.parquet").touch()
    out = breadth("ls", "datasets", "--data", folder.parent).stdout
    assert max(map(len, out.splitlines())) <= 100
    words = {line.split()[0] for line in out.splitlines() if line.strip()}
    assert set(REGISTRY) | {"Inference", "Questions", "Generated"} <= words
    hans = next(line for line in out.splitlines() if line.split()[:1] == ["hans"])
    assert "yes: " in hans
    assert hans.split()[-1] == "30,000"


def test_a_wrong_directory_is_one_line(breadth, tmp_path):
    out = breadth("ls", "datasets", "--data", tmp_path / "none", ok=False)
    assert out.returncode == 2
    assert out.stderr.count("\n") == 1
    assert "is no directory" in out.stderr


def test_listing_loads_no_language_model_library(tmp_path):
    code = (
        "import sys; from breadth.datasets import describe_datasets; describe_datasets(); "
        "print(*sorted({'torch', 'datasets', 'transformers', 'huggingface_hub'} & set(sys.modules)))"
    )
    environment = {**os.environ, "HF_HOME": str(tmp_path)}
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    assert out.stdout.strip() == ""
