"""What a network namespace is told, as bytes: routes, and rules of nf_tables. Builders; nothing here sends. Pure."""
