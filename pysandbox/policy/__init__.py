"""What the user wants: the policy model, its sources and its merge laws. Pure data; nothing here touches the kernel.

START HERE: `model.Policy`, whose options are declared in `declared/` with the words of `option`.

    fields.py, host.py, secret.py, own_detector.py, endpoint.py   what it holds: options, blocks, lines of a list
    validate.py, refusal.py, contradictions.py, expression.py   what a value may be, and what is said of a wrong one
    merge.py, layers.py, narrow.py, tighter.py   several policies to one, and one to less
    sources.py, toml_lines.py, reading.py   from TOML            render.py, serial.py, edit.py, also.py   back to text
    recipe.py, search.py, resolve.py, compose.py, places.py   recipes
    shipped_list.py, shipped_tables.py, base_grants.py, bake.py   what is generated of those that are shipped
    manifest.py, manifest_file.py, trust.py, review.py   what comes with a project, and whether it was looked at
    expand.py, user_home.py, paths_wanted.py, patterns.py, match.py, below.py   paths
    guarded.py, guarded_names.py, git_config.py, folding.py   names that the host obeys, however they are spelled
    found_by_name.py, toolchain/   what a command needs besides
    names.py, netallow.py, private_networks.py, parent.py, way_out.py, left_out.py   the network
    explain.py, summary.py, effective_cage.py, other_words.py   a policy in words
    cage_block.py, cage_shape.py   document 000's form
    detector_names.py, detector_packs.py, accepted.py, keywords.py   lists, those for type checkers among them
"""
