"""The function ``check``: checks that take long, as the state machine of checks asks for them."""

from graveler.functions.check_entry import check_handler

handler = check_handler()
