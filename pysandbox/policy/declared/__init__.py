"""The options of a policy, one file for each section of the TOML document; `policy.model` puts them together."""
