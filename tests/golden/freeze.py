"""Write what every case gives now: ``python tests/golden/freeze.py``, or only some: ``... freeze.py logs- tiny-helm``.

Do this on code whose numbers are known to be right, and read the changed lines before you commit them.
"""

import os
import sys
import tempfile
import time
from pathlib import Path

# One thread, as in the tests: sums of several threads differ in their last digits. Before numpy is imported.
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import breadth  # noqa: E402
from golden.cases import CASES, Room, find_shared, run_case  # noqa: E402
from golden.digests import as_json  # noqa: E402

FRAMES = Path(__file__).with_name("frames")


def main(prefixes):
    print(f"freezing what {Path(breadth.__file__).parent} gives")
    shared = find_shared()
    FRAMES.mkdir(exist_ok=True)
    chosen = [name for name in CASES if not prefixes or name.startswith(tuple(prefixes))]
    with tempfile.TemporaryDirectory() as folder:
        room = Room(Path(folder), shared)
        for name in chosen:
            if CASES[name].needs_shared and shared is None:
                print(f"{name}: left as it is, needs the shared data (set BREADTH_SHARED_DATA to its directory)")
                continue
            start = time.perf_counter()
            digests = run_case(name, room)
            (FRAMES / f"{name}.json").write_text(as_json(digests))
            print(f"{time.perf_counter() - start:6.2f} s  {len(digests):3} tables  {name}", flush=True)
    if not prefixes:
        for path in FRAMES.glob("*.json"):
            if path.stem not in CASES:
                path.unlink()


if __name__ == "__main__":
    main(sys.argv[1:])
