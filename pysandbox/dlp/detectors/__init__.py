"""The rows, by kind of service: `founding` (eight words of the policy's document), `keys`, `code`, `clouds`, `models`,
`services`. Data alone."""
