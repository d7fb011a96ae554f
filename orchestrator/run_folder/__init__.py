"""The folder of a run: its manifest, logs, images and results. Public names are imported on use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lyncean.plugins.face import face

if TYPE_CHECKING:
    from orchestrator.run_folder.appender import Appender as Appender
    from orchestrator.run_folder.cut import cut_counts as cut_counts
    from orchestrator.run_folder.errors import RunLogError as RunLogError, write_error as write_error
    from orchestrator.run_folder.files import (
        IMAGES as IMAGES,
        MANIFEST as MANIFEST,
        RESPONSES as RESPONSES,
        RESULTS as RESULTS,
        VERDICTS as VERDICTS,
    )
    from orchestrator.run_folder.image_store import ImageStore as ImageStore
    from orchestrator.run_folder.log import RunLog as RunLog
    from orchestrator.run_folder.manifest import (
        ManifestError as ManifestError,
        check_same as check_same,
        make as make_manifest,
        model_identity as model_identity,
        read as read_manifest,
        write as write_json,
    )
    from orchestrator.run_folder.metrics import (
        HIGHER_IS_BETTER as HIGHER_IS_BETTER,
        NO_RESULT as NO_RESULT,
        OUTCOMES as OUTCOMES,
        MetricResult as MetricResult,
        accounting as accounting,
        counts as counts,
        markdown_cell as markdown_cell,
        metric_results as metric_results,
        overall as overall,
        slices as slices,
    )
    from orchestrator.run_folder.reader import (
        STEP as STEP,
        Item as Item,
        Run as Run,
        epoch as epoch,
        named_run as named_run,
        open_run as open_run,
        reason as reason,
    )
    from orchestrator.run_folder.records import (
        outcome_line as outcome_line,
        scoring_json as scoring_json,
        unanswered_line as unanswered_line,
        verdict_line as verdict_line,
    )
    from orchestrator.run_folder.remote import RemoteError as RemoteError, fetched as fetched_run
    from orchestrator.run_folder.remote.store import Store as Store
    from orchestrator.run_folder.validity import lines as doubts

__all__ = [
    "doubts",
    "fetched_run",
    "make_manifest",
    "read_manifest",
    "write_json",
]  # mypy takes a renamed import for public by this alone

__getattr__ = face(
    __name__,
    {
        "appender": "Appender",
        "cut": "cut_counts",
        "errors": "RunLogError write_error",
        "log": "RunLog",
        "files": "IMAGES MANIFEST RESPONSES RESULTS VERDICTS",
        "image_store": "ImageStore",
        "manifest": "ManifestError check_same make:make_manifest read:read_manifest write:write_json model_identity",
        "metrics": "HIGHER_IS_BETTER MetricResult NO_RESULT OUTCOMES accounting counts markdown_cell metric_results "
        "overall slices",
        "reader": "Item Run STEP epoch named_run open_run reason",
        "records": "outcome_line scoring_json unanswered_line verdict_line",
        "remote": "RemoteError fetched:fetched_run",
        "remote.store": "Store",
        "validity": "lines:doubts",
    },
)
