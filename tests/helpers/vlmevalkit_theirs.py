"""VLMEvalKit's own evaluation of prediction tables, as its command line makes it, without a judge.

`python tests/helpers/vlmevalkit_theirs.py LMU_DATA NAME...`: NAME.tsv and NAME.json with the answers by index are in
LMU_DATA, what it finds is written to NAME.found.json.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

if __name__ == "__main__":
    folder, *names = sys.argv[1:]
    os.environ["LMUData"] = folder  # noqa: SIM112
    from vlmeval.dataset import DATASET_CLASSES, build_dataset
    from vlmeval.smp import dump

    for name in names:
        for kind in DATASET_CLASSES:  # the table is drawn: it is not that of the md5
            if name in getattr(kind, "DATASET_MD5", {}):
                kind.DATASET_MD5 = {**kind.DATASET_MD5, name: None}
        dataset = build_dataset(name)
        answers = json.loads((Path(folder) / f"{name}.json").read_text())
        data = dataset.data.copy()
        data["prediction"] = [answers[str(index)] for index in data["index"]]
        data = data.drop(columns="image")  # as vlmeval/inference.py writes a prediction table
        (Path(folder) / name).mkdir()
        file = str(Path(folder) / name / f"model_{name}.xlsx")
        dump(data, file)
        result = dataset.evaluate(file, model="exact_matching", nproc=1)
        rows = result.to_dict("records") if hasattr(result, "to_dict") else [result]
        (Path(folder) / f"{name}.found.json").write_text(json.dumps(rows))
