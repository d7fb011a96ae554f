"""The trainings below the URL of an object store, for `orchestrator view`: suites that ran with checkpoints."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from lyncean.errors import UserError
from orchestrator.compare.curve import Training
from orchestrator.compare.leaderboard import Source
from orchestrator.report.live.bucket import Bucket, FetchingError
from orchestrator.report.live.trainings import Trainings
from orchestrator.run_folder.files import has_results
from orchestrator.suite import training


class RemoteTrainings(Trainings):
    """The suites with checkpoints below a URL; the complete runs of one are fetched once its page is opened.

    Args:
        bucket: The runs below the URL.
    """

    def __init__(self, bucket: Bucket) -> None:
        self._bucket = bucket

    def folders(self) -> dict[str, Path]:
        """Returns folders with their records and leaderboards by their names."""
        return {
            self._bucket.name(place): folder
            for place, folder in sorted(self._bucket.suites.items())
            if training.is_series(folder)
        }

    def read(self, names: Sequence[str]) -> list[Training]:
        """Returns trainings by their names; those that are not there are left out.

        Raises:
            FetchingError: Their runs are being fetched.
            ConfigError: One is damaged.
        """
        places = {self._bucket.name(place): place for place in self._bucket.suites}
        return [
            replace(
                one,
                sources=[self._fetched(places[one.name], source) for source in one.sources],
                fixed=[self._fetched(places[one.name], source) for source in one.fixed],
            )
            for one in super().read(names)
        ]

    def _fetched(self, place: str, source: Source) -> Source:
        run = self._bucket.runs().get(f"{place}/{source.path.name}".lstrip("/"))
        if run is None:
            return source
        source = replace(source, path=run.path)
        try:
            if has_results(run.path):
                run.run()
        except FetchingError:
            raise
        except UserError as error:  # a damaged run does not hide the others
            return replace(source, failed=True, error=str(error))
        return source

    def _runs(self, shown: Sequence[Training]) -> Mapping[Path, str]:
        names = {run.path: run.name for run in self._bucket.runs().values()}
        return {source.path: names[source.path] for one in shown for source in one.sources if source.path in names}

    def stamp(self, shown: Sequence[Training]) -> Hashable:
        """Returns what changes whenever the page would."""
        errors = tuple(source.error for one in shown for source in (*one.sources, *one.fixed))
        return super().stamp(shown), errors
