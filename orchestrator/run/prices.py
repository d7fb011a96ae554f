"""The table of `--prices`: money for a million tokens, by model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from lyncean.rpc.budget import Budget
from orchestrator.data.yaml_file import YamlError, YamlFile
from orchestrator.errors import ConfigError
from orchestrator.run.request import RunRequest
from orchestrator.run_folder.usage import PRICES, prices_of

_ONE_MODEL = "--prices is for runs of one model, and --stage names another: leave it out"


class PricesError(YamlError, ConfigError):
    """A table of prices that says what cannot be. A user's mistake: exit 2."""


@dataclass(frozen=True, slots=True)
class PriceTable(YamlFile):
    """A table as it is written."""

    failure = PricesError
    keys = "`currency: USD` and `models:` with `name or pattern: {input: 2.5, output: 10}`"
    schema = Path(__file__).with_name("prices.json")

    def of(self, model: str) -> dict[str, Any]:
        """Returns the prices of the first name or pattern that fits a model, as the manifest has them.

        Raises:
            PricesError: None fits.
        """
        models: Mapping[str, Mapping[str, float]] = self.values["models"]
        for pattern, prices in models.items():
            if fnmatchcase(model, str(pattern)):
                return {"model": str(pattern), "currency": self.values["currency"], **prices}
        raise self.error(f"models has no price of {model}: add its name, or a pattern such as '{model[:1]}*'", "models")

    def of_run(self, manifest: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the prices of a complete run's model as fields of its manifest.

        Raises:
            ConfigError: The model has no price, or the run has models of further stages.
        """
        if manifest.get("stages"):
            raise ConfigError(_ONE_MODEL)
        return {PRICES: self.of(str(manifest["identity"]["model"]["model_name"]))}


def priced(request: RunRequest, model: str, budget: Budget) -> dict[str, Any]:
    """Gives a budget the prices of a request's model; returns them as fields of the manifest, none without --prices.

    Raises:
        ConfigError: The table cannot be used, or has no price of the model.
    """
    table = table_of(request)
    if table is None:
        return {}
    price = table.of(model)
    budget.prices, budget.currency = prices_of(price), price["currency"]
    return {PRICES: price}


def table_of(request: RunRequest) -> PriceTable | None:
    """Returns the table of a request's `--prices`, None without one.

    Raises:
        ConfigError: It cannot be read or used, or is missing where a bound on the cost needs it.
    """
    if request.max_cost is not None and request.prices is None:
        raise ConfigError("--max-cost bounds money, and no price is known: give --prices FILE")
    if request.prices is None:
        return None
    if request.stages:
        raise ConfigError(_ONE_MODEL)
    return PriceTable.read(Path(request.prices))
