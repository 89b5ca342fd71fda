"""The emulator's command, with cookies in the events of HTTP APIs.

AWS hands a request's cookies to a function in the event's ``cookies``, and not among its headers, by payload format 2.0
(https://docs.aws.amazon.com/apigateway/latest/developerguide/http-api-develop-integrations-lambda.html). ministack leaves them
in the headers. This command runs in ``.venv-deploy``.
"""

from typing import Any

from ministack.app import main
from ministack.services import apigateway

run = apigateway.run_reentrant


def run_with_cookies(function: Any, *arguments: Any, **more: Any) -> Any:
    """Run a function, which executes one of Lambda, on an event with its cookies where AWS has them."""
    return run(function, *map(move_cookies, arguments), **more)


def move_cookies(argument: Any) -> Any:
    """Return an event with cookies with these in their place, and anything else as it is."""
    if not isinstance(argument, dict) or argument.get("version") != "2.0" or "cookie" not in argument["headers"]:
        return argument
    headers = dict(argument["headers"])
    return {**argument, "cookies": headers.pop("cookie").split("; "), "headers": headers}


if __name__ == "__main__":
    apigateway.run_reentrant = run_with_cookies
    main()
