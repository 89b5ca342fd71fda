'''The HTTP API: lakeFS's own API and more, implemented with the operations of :mod:`graveler.lake`.

:class:`graveler.api.application.Application` handles events of API Gateway (HTTP API, payload 2.0); a local server and Lambda
both call it. A module in ``resources`` holds the routes of one group. To add a route::

    from graveler.api.call import Call
    from graveler.wire.documents import Error, Ref            # JSON bodies: msgspec Structs; add yours there or in the module
    from graveler.api.queries import Query                   # query parameters: subclass it, msgspec types, all with defaults
    from graveler.api.response import Response, json_response, no_content
    from graveler.api.routing import Routes
    from graveler.requests.base import Permission

    routes = Routes("branches")                              # one for each module; list the module in resources/__init__.py

    class StatQuery(Query):
        path: RequiredText                                   # no default: missing and empty are a 400
        presign: bool = False                                # any spelling of a boolean; `presign=` means absent

    @routes.get("/repositories/{repository}/branches/{branch}", "getBranch", Permission.READ, responses={200: Ref, 404: Error})
    def get_branch(call: Call, repository: str, branch: str) -> Response:
        """Describe one branch."""                           # first line: the summary in the OpenAPI document
        return json_response(Ref(branch, call.lake.repository(repository).branch(branch).commit_id))

The operation of a request of the lake takes everything from its class, and the handler gets the request::

    @routes.run(refs.DeleteTag, responses={204: None, 403: Error, 404: Error})
    def delete_tag(call: Call, repository: str, request: refs.DeleteTag) -> Response:
        """Delete a tag; its commit stays."""
        call.run(repository, request)
        return no_content()

Path parameters arrive by name, percent-decoded and not empty. An argument called ``query`` gets the query parameters in its
annotated type, ``body`` the JSON body as its Struct (unknown fields ignored, types strict, 400 with the reason). ``errors.py``
maps the lake's errors to statuses; raise :class:`graveler.api.errors.ApiError` for errors that exist only in HTTP.
``call`` has ``lake``, ``access``, ``identity``, ``settings``, ``headers``, ``body_bytes()``, ``body_file``, ``committer``,
``request_key`` (for verbs with a ``request_id``), ``audit_url`` (for each presigned URL; changes are audited by themselves). The
permission that a route declares is checked before the handler runs, for the path's ``{repository}`` and, if it changes anything,
``{branch}``; with ``branch_in_body=True`` the handler must check it itself. ``None`` declares a route without credentials.
`make openapi` regenerates the OpenAPI document.
'''
