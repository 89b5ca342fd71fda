"""The function ``operate``: a step of a long operation, as the state machine asks for it."""

from graveler.functions.operate_entry import operate_handler

handler = operate_handler()
