"""The command `pysandbox`: main dispatches, one file per command. Nothing below this package may import it.

main.py, declared.py, flags.py, completion.py   the words of a command line
actions.py, cages.py, decide.py, fetch.py       what several commands share
run.py, up.py, up_pipeline.py, app_run.py       the commands that run something; others have the file of their name
policy_of.py, trusting.py, other_words.py       from flags and files to a Policy, with what must be looked at first
first_run.py, keep.py, kept_services.py, kept_imports.py, beside.py   plans that the launcher (csrc/launcher) starts
perform.py, attend.py, descriptors.py, terminal.py, progress.py       one command from its start to its end
why_failed.py, after_failure.py, not_found.py, no_network.py, needs.py, in_manifest.py   what is said when it fails
apply.py   what was said, written into a file
console.py, document.py, note_lines.py, monitoring.py, recipe_text.py, recipe_compare.py   what is printed
ask.py, pick.py   what is asked of a person     trail.py   the audit trail
stop_key.py       Ctrl-Z                        own_modules.py   a quick finder of our modules, for a first run
"""
