"""Feature flags of the CDK, for those who run ``app.py`` without the CDK's command."""

import json
from pathlib import Path
from typing import Any, Final

_FILE: Final = Path(__file__).resolve().parent.parent / "cdk.json"


def feature_flags() -> dict[str, Any]:
    """Return the flags in cdk.json, as context: https://docs.aws.amazon.com/cdk/v2/guide/featureflags.html"""
    context: dict[str, Any] = json.loads(_FILE.read_text())["context"]
    return {name: value for name, value in context.items() if name.startswith("@")}
