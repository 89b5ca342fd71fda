"""S3's protocol: signatures, bodies, conditions and documents. Values only: no lake, no input or output, no clock."""
