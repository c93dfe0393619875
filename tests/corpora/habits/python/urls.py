from urllib.parse import parse_qs, quote, quote_plus, unquote, urlencode, urlparse

url = urlparse("https://user:pw@Example.com:8080/a/b;v=1?x=1&y=a%20b&x=2#part")
result = [
    quote("a b/é?&"),
    quote("a/b", safe=""),
    quote_plus("a b&c"),
    unquote("a%20b%C3%A9+%zz"),
    urlencode({"q": "a b", "n": 1}),
    urlencode([("id", [1, 2])], doseq=True),
    parse_qs(url.query),
    [url.scheme, url.netloc, url.path, url.params, url.fragment, url.hostname, url.port, url.username],
    url.geturl(),
    list(urlparse("/only/path?x")),
]
