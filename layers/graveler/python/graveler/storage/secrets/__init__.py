"""Keys that seal the secrets in the table: in a file, wrapped by AWS KMS, or stored in AWS Secrets Manager."""
