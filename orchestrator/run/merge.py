"""Shards put together: the same folder that one run would have made."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from orchestrator.run.resume import code_of
from orchestrator.run_folder import manifest as run_manifest
from orchestrator.run_folder.cut import FINISH_CUT
from orchestrator.run_folder.errors import write_error
from orchestrator.run_folder.files import IMAGES, MANIFEST, RESPONSES, RESULTS, VERDICTS, has_results
from orchestrator.run_folder.index import Index
from orchestrator.run_folder.key_table import KeyTable, shard_of
from orchestrator.run_folder.lines import SampleLine, VerdictLine
from orchestrator.run_folder.lock import held
from orchestrator.run_folder.log import RunLog
from orchestrator.run_folder.manifest import ManifestError
from orchestrator.run_folder.scanning import scan


def merge(shards: Sequence[Path], run: Path) -> dict[str, Any]:
    """Puts complete shards together in a new folder and returns its manifest; metrics come after.

    May be called again for the same shards after any failure: a folder without a
    manifest is begun anew, one with the manifest of these very shards is taken as it is.

    Raises:
        ManifestError: If they do not fit: other commands, rules, judges or benchmarks' code, a shard
            that is missing, twice or not complete, a key that is missing, in two shards, or in the wrong one.
        RunBusyError: If a shard is being written.
        RunLogError: If a log is damaged or the folder cannot be written.
    """
    with contextlib.ExitStack() as stack:
        for shard in shards:
            stack.enter_context(held(shard))
        return _merge(shards, run)


def _merge(shards: Sequence[Path], run: Path) -> dict[str, Any]:
    manifests = [run_manifest.read(shard) for shard in shards]
    _check_fit(shards, manifests)
    # What they hold, not only which they are: a shard may have asked again since for what had failed.
    states = [hashlib.sha256((shard / RESULTS).read_bytes()).hexdigest() for shard in shards]
    if (run / MANIFEST).exists():
        there = run_manifest.read(run)
        if there.get("merged") == states and there["identity_sha256"] == manifests[0]["identity_sha256"]:
            return there
        raise ManifestError(f"{run} is there already, and not of these shards as they are now: give --run a new folder")
    seen = KeyTable()
    for shard, manifest in zip(shards, manifests, strict=True):
        _check_keys(shard, manifest, seen)
    planned: Counter[str] = Counter()
    for manifest in manifests:
        planned.update(manifest["planned"])
    merged = {**manifests[0], "shard": None, "planned": dict(planned)}
    merged["replicas"] = sorted({replica for manifest in manifests for replica in manifest["replicas"]})
    merged["merged"] = states
    log = RunLog(run)
    try:
        for name in (RESPONSES, VERDICTS):
            with (run / name).open("wb") as target:
                for shard in shards:
                    with (shard / name).open("rb") as source:
                        shutil.copyfileobj(source, target, 1 << 20)
        for shard in shards:
            _take_images(shard / IMAGES, run / IMAGES)
        log.sync()
    except OSError as error:
        raise write_error(run, error) from error
    finally:
        log.close()
    run_manifest.write(run / MANIFEST, merged)
    return merged


def _check_fit(shards: Sequence[Path], manifests: Sequence[Mapping[str, Any]]) -> None:
    first = manifests[0]
    places: dict[int, Path] = {}
    for shard, manifest in zip(shards, manifests, strict=True):
        if manifest["shard"] is None:
            raise ManifestError(f"{shard} is not a shard: it was run without --shard")
        index, of = manifest["shard"]["index"], manifest["shard"]["of"]
        run_manifest.check_same(shard, {**manifest, "shard": None}, first["identity"], None)
        if of != first["shard"]["of"]:
            raise ManifestError(f"{shard} is one of {of} shards, {shards[0]} one of {first['shard']['of']}")
        if index in places:
            raise ManifestError(f"shard {index}/{of} is there twice: {places[index]} and {shard}")
        _check_alike(shard, manifest, shards[0], first)
        if "planned" not in manifest or not has_results(shard):
            raise ManifestError(f"{shard} is not complete: run its command again first ({manifest['command']})")
        places[index] = shard
    missing = [index for index in range(first["shard"]["of"]) if index not in places]
    if missing:
        names = ", ".join(f"{index}/{first['shard']['of']}" for index in missing)
        missing_shards = f"shard {names} is missing" if len(missing) == 1 else f"shards {names} are missing"
        raise ManifestError(f"a gap: {missing_shards}; run eval with --shard {names.partition(',')[0]}, then merge")


def _check_alike(shard: Path, manifest: Mapping[str, Any], other: Path, first: Mapping[str, Any]) -> None:
    """Makes sure that two shards were asked by the same code and scored by the same rules and judges."""
    for field, same in (("rules", "the same rules"), ("judges", "the same --judge")):
        here, there = _named(manifest.get(field) or {}), _named(first.get(field) or {})
        name = next((name for name in sorted({*here, *there}) if here.get(name) != there.get(name)), None)
        if name is not None:
            raise ManifestError(
                f"{shard} and {other} were not scored alike: they differ in {field}, {name!r}; run the commands of "
                f"both again with one scorer, which has {same}"
            )
    if manifest.get(FINISH_CUT) != first.get(FINISH_CUT):
        raise ManifestError(f"{shard} and {other} differ in --finish-cut: run the commands of both with the same")
    for name, code in first.get("benchmarks", {}).items():
        if not {code, code_of(first).get(name)} & {manifest["benchmarks"].get(name), code_of(manifest).get(name)}:
            raise ManifestError(
                f"{shard} and {other} were not asked by the same code of benchmark {name!r}: run the command of one "
                "again, in a new folder, with the version of the other"
            )


def _named(states: Mapping[str, str] | Sequence[str]) -> Mapping[str, str]:
    return states if isinstance(states, Mapping) else dict.fromkeys(states, "")


def _check_keys(shard: Path, manifest: Mapping[str, Any], seen: KeyTable) -> None:
    index, of = manifest["shard"]["index"], manifest["shard"]["of"]
    for _, line in scan(shard / RESPONSES, SampleLine):
        earlier = seen.put(line.key, number=index, flags=1)
        if earlier is None and shard_of(line.sample, of) != index:
            owner = shard_of(line.sample, of)
            raise ManifestError(f"{shard} holds {line.sample!r}, which belongs to shard {owner}/{of}")
        if earlier and earlier[0] != index:
            raise ManifestError(f"an overlap: {line.key!r} is in shard {earlier[0]}/{of} and in {shard}")
    # In the merged folder a damaged line could no longer be scored anew.
    for _ in scan(shard / VERDICTS, VerdictLine):
        pass
    verdicts = Index(shard, (VERDICTS,))
    settled = verdicts.by_task(verdicts.verdicts)
    for task, planned in manifest["planned"].items():
        if len(settled.get(task, ())) != planned:
            raise ManifestError(f"a gap: {shard} settles {len(settled.get(task, ())):,} of {planned:,} items of {task}")


def _take_images(source: Path, target: Path) -> None:
    if not source.is_dir():
        return
    target.mkdir(exist_ok=True)
    for image in source.iterdir():
        copy = target / image.name
        if copy.exists() or image.name.startswith("."):
            continue
        try:
            os.link(image, copy)
        except OSError:
            shutil.copyfile(image, copy)
