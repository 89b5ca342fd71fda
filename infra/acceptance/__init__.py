"""``python -m infra.acceptance``: deploy graveler to an AWS account, look whether it does what it promises, and remove it again.

What emulators leave out (policies, throttles, regions, quotas, recovery to a moment) is true only where it ran. Whoever has an
account runs this once for a region, and reads the report. The tests run the same code against an emulator, as far as that goes.

* ``account``: the stacks come and go: bootstrap, deploy, empty, destroy.
* ``deployment``: what checks work with: addresses, an admin's key, clients.
* ``checks``: what is looked at, each with a line that says what a pass shows.
* ``report``: what came of it, for people and for programs.
"""
