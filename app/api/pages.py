"""HTML that this service shows: with headers under which it runs and loads nothing foreign."""

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
_INLINE = "'self' 'unsafe-inline'"
BUILT_POLICY = POLICY.replace("script-src 'self'", f"script-src {_INLINE}").replace(
    "style-src 'self'", f"style-src {_INLINE}"
)
"""For a site that a generator has built, whose scripts and styles stand in its pages."""
PAGE_HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    # Kept, but asked for again: a new version of the service shows at once.
    "Cache-Control": "no-cache",
}
