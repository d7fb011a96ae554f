"""Metrics of a corpus of captions: BLEU, METEOR, ROUGE-L and CIDEr, as pycocoevalcap computes them."""

from __future__ import annotations

import functools
import importlib.util
import re
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

from lyncean.arrays import np
from lyncean.scorer.v1 import scorer_pb2 as pb
from scorer.metrics.base import Metric, Params, Plan
from scorer.metrics.table import Table

Corpus = Sequence[tuple[str, Sequence[str]]]
"""Captions with their references."""

# All that Java may take for the end of a line: one caption must stay one line of a pipe.
_BREAK = re.compile("[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]")
_JAVA = ("java", "-Dfile.encoding=UTF-8", "-Xmx2G")


class NotComputed(Exception):
    """A metric that cannot be computed here; the message names the missing program or package."""


def tokenized(corpus: Corpus) -> Corpus:
    """Returns the corpus in lower-case Penn Treebank tokens without punctuation, as COCO's evaluation server does.

    Raises:
        NotComputed: Java is missing.
    """
    from pycocoevalcap.tokenizer import ptbtokenizer

    texts = [text for caption, references in corpus for text in (caption, *references)]
    home = Path(ptbtokenizer.__file__).parent
    program = ("-cp", ptbtokenizer.STANFORD_CORENLP_3_4_1_JAR, "edu.stanford.nlp.process.PTBTokenizer")
    command = (*_java_command(), *program, "-preserveLines", "-lowerCase")
    text = "".join(_BREAK.sub(" ", text) + "\n" for text in texts)
    done = subprocess.run(command, cwd=home, input=text, capture_output=True, encoding="utf-8")
    if done.returncode:
        raise NotComputed(f"not computed: {program[-1]} failed: {done.stderr.strip().splitlines()[-1:]}")
    dropped = frozenset(ptbtokenizer.PUNCTUATIONS)
    split = (line.split(" ") for line in done.stdout.split("\n"))
    lines = (" ".join(token for token in tokens if token not in dropped) for tokens in split)
    return [(next(lines), [next(lines) for _ in references]) for _, references in corpus]


def bleu(corpus: Corpus, order: int) -> float:
    """Returns BLEU of the corpus with the closest reference length (https://aclanthology.org/P02-1040)."""
    from pycocoevalcap.bleu.bleu import Bleu

    scores, _ = Bleu(order).compute_score(*_dictionaries(corpus), verbose=0)
    return float(scores[order - 1])


def rouge_l(corpus: Corpus) -> float:
    """Returns the mean ROUGE-L over tokens split at single blanks (https://aclanthology.org/W04-1013)."""
    from pycocoevalcap.rouge.rouge import Rouge

    return float(Rouge().compute_score(*_dictionaries(corpus))[0])


def cider(corpus: Corpus) -> float:
    """Returns the mean CIDEr-D, whose idf depends on the corpus: of one caption it is 0 (arXiv:1411.5726)."""
    from pycocoevalcap.cider.cider import Cider

    return float(Cider().compute_score(*_dictionaries(corpus))[0])


def meteor(corpus: Corpus) -> float:
    """Returns METEOR 1.5 of the corpus, from pooled statistics (https://aclanthology.org/W14-3348).

    Raises:
        NotComputed: Java is missing, or its METEOR fails.
    """
    from pycocoevalcap.meteor import meteor as library

    home = Path(library.__file__).parent
    command = (*_java_command(), "-jar", library.METEOR_JAR, "-", "-", "-stdio", "-l", "en", "-norm")
    try:
        with subprocess.Popen(
            command,
            cwd=home,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            encoding="utf-8",
        ) as process:
            assert process.stdin
            assert process.stdout
            statistics = []
            for caption, references in corpus:
                fields = [*references, caption.replace("|||", "").replace("  ", " ")]
                line = " ||| ".join(["SCORE", *(_BREAK.sub(" ", field).replace("|||", " ") for field in fields)])
                process.stdin.write(line + "\n")
                process.stdin.flush()
                statistics.append(process.stdout.readline().strip())
            process.stdin.write(" ||| ".join(["EVAL", *statistics]) + "\n")
            process.stdin.flush()
            # One line for each caption, then the corpus.
            lines = [process.stdout.readline() for _ in range(len(statistics) + 1)]
            process.stdin.close()
        return float(lines[-1])
    except (OSError, ValueError) as error:
        raise NotComputed(f"not computed: METEOR ended early or without a number: {error}") from None


MEASURES: dict[str, Callable[[Corpus], float]] = {
    **{f"bleu_{order}": functools.partial(bleu, order=order) for order in (1, 2, 3, 4)},
    "meteor": meteor,
    "rouge_l": rouge_l,
    "cider": cider,
}
"""Value of params.measure -> function that computes it."""


def _java_command() -> tuple[str, ...]:
    if not shutil.which("java"):
        raise NotComputed("not computed: needs Java, and there is no java on the PATH where the scorer runs")
    return _JAVA


def _dictionaries(corpus: Corpus) -> tuple[dict[int, list[str]], dict[int, list[str]]]:
    references = {number: list(texts) for number, (_, texts) in enumerate(corpus)}
    return references, {number: [caption] for number, (caption, _) in enumerate(corpus)}


def plan(params: Params) -> Plan:
    """Reads the parameters."""
    measure = params.word("measure", "cider", tuple(MEASURES))
    tokenize = params.word("tokenize", "ptb", ("ptb", "raw"))

    def value(captions: Corpus) -> float:
        # Reported in the result and not as an error of the run: all answers are paid for, and can be scored again.
        if importlib.util.find_spec("pycocoevalcap") is None:
            raise NotComputed(
                "not computed: needs pycocoevalcap where the scorer runs, pip install 'lyncean[captions]'"
            )
        return MEASURES[measure](tokenized(captions) if tokenize == "ptb" else captions)

    def compute(table: Table) -> pb.MetricResult:
        answered = table.answered
        result = pb.MetricResult(denominator=len(table), denominator_answered=int(answered.sum()))
        result.details.update({"measure": measure, "tokenize": tokenize})
        corpus = [
            (str(caption), tuple(references))
            for caption, references in zip(table.word("extracted"), table.word("targets"), strict=True)
        ]
        try:
            kept = [corpus[row] for row in np.flatnonzero(answered)]
            if kept:
                result.value_answered = value(kept)
            # An item without an answer counts as an empty caption, which still needs references.
            if len(kept) == len(corpus):
                result.value = result.value_answered
            elif all(references for _, references in corpus):
                result.value = value(corpus)
            else:
                result.details["missing"] = "items without references"
        except NotComputed as error:
            result.details["not_computed"] = str(error)
        return result

    reason = "captions are scored as one corpus, which takes long to repeat; the parameter bootstrap asks for it"
    return Plan(compute, columns=frozenset({"extracted", "targets"}), no_interval=reason)


METRIC = Metric(
    name="caption",
    description=(
        "BLEU-1 to 4, METEOR 1.5, ROUGE-L or CIDEr of a corpus of captions (rule caption: what was extracted against "
        "the targets), by pycocoevalcap. Each item is an entry of its own, repeats included; an item without an answer "
        "is an empty caption. METEOR and the ptb words need Java: without it the metric says that it was not computed."
    ),
    plan=plan,
    params={
        "measure": " | ".join(MEASURES) + "; default cider",
        "tokenize": "ptb (default: lower-case Penn Treebank words without punctuation) | raw (texts as they are)",
    },
)
