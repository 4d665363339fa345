"""The Slurm scripts of the documentation, with stand-ins for the commands of Slurm, Ray and breadth."""

import os
import subprocess
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).resolve().parents[3] / "docs" / "how-to" / "slurm"

STAND_INS = {
    "scontrol": 'printf "one\\ntwo\\nthree\\n"',
    # Runs what it is asked to run: everything after the options.
    "srun": """node=
        while [ "${1#-}" != "$1" ]; do [ "$1" = -w ] && { node=$2; shift; }; shift; done
        exec env NODE="$node" "$@"
    """,
    "hostname": "echo 192.0.2.7 10.0.0.7",
    "ray": """echo "$NODE ray $*" >> "$CALLS"
        [ "$RAY_AUTH_MODE" = token ] && [ ${#RAY_AUTH_TOKEN} = 64 ] || exit 1
        [ "$1" = start ] && exec sleep 60; exit 0
    """,
    # A study takes longer than a node needs to start.
    "breadth": """echo "$NODE breadth $*" >> "$CALLS"
        for _ in $(seq 200); do [ "$(grep -c 'ray start' "$CALLS")" -ge "${STARTS:-0}" ] && break; sleep 0.1; done
    """,
}


@pytest.fixture
def slurm(tmp_path):
    """Run a script; the calls of Ray and breadth that it makes."""
    for name, text in STAND_INS.items():
        path = tmp_path / name
        path.write_text(f"#!/bin/bash\n{text}\n")
        path.chmod(0o755)

    def run(script, *arguments, **environment):
        calls = tmp_path / "calls"
        values = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "CALLS": str(calls), **environment}
        words = ["bash", str(SCRIPTS / script), *arguments]
        out = subprocess.run(words, env=values, capture_output=True, text=True, check=False, timeout=60)
        return out, calls.read_text().splitlines() if calls.exists() else []

    return run


@pytest.mark.parametrize("name", ["ray.sbatch", "shard.sbatch"])
def test_syntax(name):
    out = subprocess.run(["bash", "-n", str(SCRIPTS / name)], capture_output=True, text=True, check=False)
    assert (out.returncode, out.stderr) == (0, "")


def test_ray_across_an_allocation(slurm):
    out, calls = slurm(
        "ray.sbatch", "my-study.yaml", "--into", "s", SLURM_JOB_ID="7", SLURM_JOB_NODELIST="[one-three]",
        SLURM_GPUS_ON_NODE="4", SLURM_CPUS_PER_TASK="32", STARTS="3",
    )  # fmt: skip
    assert out.returncode == 0, out.stderr
    common = "--num-cpus=32 --num-gpus=4 --disable-usage-stats --block"
    assert f"one ray start --head --node-ip-address=192.0.2.7 --port=20007 --include-dashboard=false {common}" in calls
    for node in ("two", "three"):
        assert f"{node} ray start --address=192.0.2.7:20007 {common}" in calls
    assert calls.index("one ray health-check --address 192.0.2.7:20007") < len(calls)
    assert "one breadth run my-study.yaml --on 192.0.2.7:20007 --into s" in calls


def test_a_job_array_without_ray(slurm):
    out, calls = slurm("shard.sbatch", "my-study.yaml", "s", SLURM_ARRAY_TASK_ID="3", SLURM_ARRAY_TASK_COUNT="16")
    assert out.returncode == 0, out.stderr
    assert calls == [" breadth run my-study.yaml --into s --shard 3/16"]


@pytest.mark.parametrize("name", ["ray.sbatch", "shard.sbatch"])
def test_without_a_study(slurm, name):
    out, calls = slurm(name)
    assert out.returncode != 0
    assert "name a study" in out.stderr
    assert calls == []
