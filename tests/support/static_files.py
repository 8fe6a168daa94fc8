"""Static files are looked for once a run, not by every client a test makes: a tenth of its time."""

from servestatic.middleware import ServeStaticMiddleware

_look = ServeStaticMiddleware.add_files_from_finders
_found: dict[tuple[object, ...], ServeStaticMiddleware] = {}


def found_once(middleware: ServeStaticMiddleware) -> None:
    """Fill a middleware with the files that the first one of its kind found."""
    kind = (
        middleware.static_root,
        middleware.static_prefix,
        middleware.autorefresh,
        middleware.max_age,
        middleware.allow_all_origins,
    )
    if kind not in _found:
        _look(middleware)
        _found[kind] = middleware
        return
    middleware.files.update(_found[kind].files)
    middleware.directories[:] = _found[kind].directories
