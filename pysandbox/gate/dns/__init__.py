"""The DNS door: messages (RFC 1035), transactions, the synthetic addresses of allowed names, the resolver."""
