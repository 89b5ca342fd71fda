"""Reads the settings of a deployment: defaults under ``graveler`` in cdk.json, the deployment's own in
``deployments/<name>.json``, and ``-c graveler:<name>=<value>``, which replaces both."""

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from infra.check_settings import parsed_checks
from infra.settings import CONFIRM, DEPLOYMENT, DEPLOYMENTS, PREFIX, Settings, SettingsError, SparkJob


def read_settings(context: Callable[[str], Any], file: Mapping[str, Any] | None = None) -> Settings:
    """Return the settings that a CDK node's ``try_get_context`` has, with those of a settings ``file`` before the defaults of
    cdk.json. :class:`SettingsError` for unknown names and bad values."""
    values = {**dict(context(PREFIX) or {}), **(file or {})}
    known = {field.name: field for field in fields(Settings)}
    for name in known:
        value = context(f"{PREFIX}:{name}")
        if value is not None:
            values[name] = value
    unknown = sorted(set(values) - set(known))
    if unknown:
        raise SettingsError(f"{', '.join(unknown)}: unknown; known are {', '.join(known)}")
    return Settings(**{name: _parsed(name, known[name].default, value) for name, value in values.items()})


def check_context(names: Iterable[str]) -> None:
    """Check the names of context values, so that none of ``-c graveler:…`` is misspelt and ignored. :class:`SettingsError`."""
    keys = {f"{PREFIX}:{name}" for name in (*Settings.__dataclass_fields__, DEPLOYMENT, CONFIRM)}
    unknown = sorted(name for name in names if name.startswith(f"{PREFIX}:") and name not in keys)
    if unknown:
        raise SettingsError(f"{', '.join(unknown)}: unknown; docs/deploy.md has all settings")


def settings_path(context: Callable[[str], Any], folder: Path = DEPLOYMENTS) -> Path | None:
    """Return the settings file that the context names, or else that of the deployment's name if there is one.
    :class:`SettingsError` if the named one does not exist."""
    deployment = context(f"{PREFIX}:{DEPLOYMENT}")
    if deployment == "none":
        return None
    if deployment is not None:
        path = Path(deployment) if deployment.endswith(".json") else folder / f"{deployment}.json"
        if not path.is_file():
            raise SettingsError(f"{DEPLOYMENT} {deployment!r}: there is no file {path}")
        return path
    name = context(f"{PREFIX}:name") or dict(context(PREFIX) or {}).get("name", Settings.name)
    path = folder / f"{name}.json"
    return path if path.is_file() else None


def read_file(path: Path) -> dict[str, Any]:
    """Return the settings in a file: an object of JSON, with the names of :class:`Settings`. :class:`SettingsError`."""
    try:
        values = json.loads(path.read_text(encoding="utf-8"), object_pairs_hook=_without_repeats)
    except (OSError, ValueError) as error:
        raise SettingsError(f"{path} cannot be read: {error}") from error
    if not isinstance(values, dict):
        raise SettingsError(f"{path} must hold an object of JSON: names of settings and their values")
    unknown = sorted(set(values) - {field.name for field in fields(Settings)})
    if unknown:
        raise SettingsError(f"{path}: {', '.join(unknown)}: unknown; docs/deploy.md has all settings")
    return values


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"twice in it: {', '.join(sorted({name for name in names if names.count(name) > 1}))}")
    return values


def _parsed(name: str, default: object, value: Any) -> Any:
    """A value of the default's type; the command line gives text only."""
    if value is None:
        raise SettingsError(f"{name} null: leave the setting out to have its default")
    if name == "spark_jobs":
        return _parsed_jobs(value)
    if name == "checks":
        try:
            return parsed_checks(value)
        except ValueError as error:
            raise SettingsError(f"checks cannot be read: {error}") from None
    if isinstance(default, bool):
        said = str(value).lower()
        if said not in ("true", "false"):
            raise SettingsError(f"{name} {value!r} must be true or false")
        return said == "true"
    if isinstance(default, int):
        if isinstance(value, bool) or not re.fullmatch(r"-?\d+", str(value)):
            raise SettingsError(f"{name} {value!r} must be a whole number")
        return int(value)
    if isinstance(default, tuple):
        several = value.split(",") if isinstance(value, str) else value
        if not isinstance(several, list | tuple) or not all(isinstance(part, str) for part in several):
            raise SettingsError(f"{name} {value!r} must be a list of texts, or one text with commas")
        return tuple(part.strip() for part in several if part.strip())
    if not isinstance(value, str):
        raise SettingsError(f"{name} {value!r} must be a text")
    return value


def _parsed_jobs(value: Any) -> dict[str, SparkJob]:
    try:
        given = json.loads(value) if isinstance(value, str) else value
        jobs = {name: _parsed_job(job) for name, job in given.items()}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise SettingsError(
            f"spark_jobs cannot be read ({error!r}); it is JSON: names, and for each a schedule and a job, and perhaps arguments "
            "and calls"
        ) from None
    if len({name.capitalize() for name in jobs}) < len(jobs):
        raise SettingsError(f"spark_jobs: {', '.join(jobs)} must differ in more than capital letters")
    return jobs


def _parsed_job(job: Mapping[str, Any]) -> SparkJob:
    unknown = sorted(set(job) - {field.name for field in fields(SparkJob)})
    if unknown:
        raise ValueError(f"{', '.join(unknown)}: unknown")
    arguments, calls = job.get("arguments", []), job.get("calls", [])
    if not isinstance(arguments, list) or not isinstance(calls, list):
        raise TypeError("arguments and calls are lists")
    return SparkJob(str(job["schedule"]), str(job["job"]), tuple(map(str, arguments)), tuple(calls))
