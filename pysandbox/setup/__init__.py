"""`pysandbox setup`: the policy for AppArmor or SELinux that lets one interpreter make cages, and confines them.

target.py says which interpreter and which cage-init; apparmor.py and selinux.py turn that into text, and are pure;
status.py compares it with what is installed; install.py runs the system's tools. docs/adr/0005 has the reasons.
"""
