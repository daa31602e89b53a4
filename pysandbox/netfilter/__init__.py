"""What a network namespace is told, as bytes: routes and the doors' rules (`netlink`), in the words of `nftables`.
Builders; nothing here sends. Pure."""
