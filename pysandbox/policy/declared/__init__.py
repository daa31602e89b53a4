"""The options of a policy, in `files`, `process`, `syscalls`, `network`, `inspection`, `resources` and `workspace`: one
for each section of the TOML document. `policy.model` puts them together."""
