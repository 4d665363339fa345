"""Fit one peer on a saved matrix and print its seconds and item parameters. Run by irt.py and irt_likelihood.py.

python benchmarks/irt_peers.py PEER MODEL MATRIX.npz
"""

from __future__ import annotations

import contextlib
import io
import json
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

SECONDS: list[float] = []


def timed(fit):
    """Run the fit alone under the clock: no imports, no reading, no conversion."""
    start = time.perf_counter()
    result = fit()
    SECONDS.append(time.perf_counter() - start)
    return result


def girth(matrix: np.ndarray, model: str) -> dict[str, np.ndarray]:
    import girth as peer

    fit = {"1pl": peer.rasch_mml, "2pl": peer.twopl_jml, "3pl": peer.threepl_mml}[model]
    answers = matrix.T.astype(int)
    return {name.lower(): value for name, value in timed(lambda: fit(answers)).items()}


def mirt(matrix: np.ndarray, model: str) -> dict[str, np.ndarray]:
    from mirt import fit_mirt

    answers = matrix.astype(int)
    fitted = timed(lambda: fit_mirt(answers, model=model.upper(), compute_standard_errors=False))
    return fitted.model.parameters


def pyirt(matrix: np.ndarray, model: str) -> dict[str, np.ndarray]:
    from py_irt.config import IrtConfig
    from py_irt.dataset import Dataset
    from py_irt.training import IrtModelTrainer

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "answers.jsonlines"
        with path.open("w") as file:
            for i, row in enumerate(matrix):
                answers = {f"q{j:05d}": int(cell) for j, cell in enumerate(row)}
                file.write(json.dumps({"subject_id": f"s{i:05d}", "responses": answers}) + "\n")
        data = Dataset.from_jsonlines(path)
        trainer = IrtModelTrainer(config=IrtConfig(model_type=model), data_path=path, dataset=data, verbose=False)
        timed(trainer.train)
        order = [data.item_id_to_ix[f"q{j:05d}"] for j in range(matrix.shape[1])]
        return {"difficulty": np.asarray(trainer.last_params["diff"])[order]}


def main() -> None:
    peer, model, path = sys.argv[1:4]
    matrix = np.load(path)["R"]
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        items = {"girth": girth, "mirt": mirt, "py-irt": pyirt}[peer](matrix, model)
    difficulty = np.asarray(items["difficulty"], dtype=float)
    printed = {"seconds": SECONDS[0], "difficulty": difficulty.tolist()}
    for name, usual in (("discrimination", 1.0), ("guessing", 0.0), ("upper", 1.0)):
        values = np.asarray(items.get(name, usual), dtype=float)
        printed[name] = np.broadcast_to(values, difficulty.shape).tolist()
    print(json.dumps(printed))


if __name__ == "__main__":
    main()
