"""The port *tables* and its adapters: SQLite, DynamoDB, memory."""
