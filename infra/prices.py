"""What AWS asks for what graveler uses: list prices of us-east-1, in US dollars. Look them up again before a decision."""

from typing import Final

DATE: Final = "2025-12"
"""When the prices were current."""

READ_UNIT: Final = 0.125e-6
"""DynamoDB, on demand: one consistent read of up to 4 KB."""
WRITE_UNIT: Final = 0.625e-6
"""DynamoDB, on demand: one write of up to 1 KB; in a transaction two of them."""
TABLE_GB_MONTH: Final = 0.25
RESTORE_GB_MONTH: Final = 0.20
"""Point-in-time recovery of the table."""

S3_GET: Final = 0.4e-6
S3_PUT: Final = 5e-6
"""Also listings."""
S3_GB_MONTH: Final = 0.023

HTTP_REQUEST: Final = 1.0e-6
INVOCATION: Final = 0.2e-6
GB_SECOND: Final = 13.3334e-6
"""Lambda on arm64."""
LOG_GB: Final = 0.5
