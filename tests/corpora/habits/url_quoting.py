import urllib.parse
from urllib.parse import quote, unquote, urlencode, parse_qs

params = {"q": "a b&c", "page": 2, "é": "ü/"}
query = urlencode(params)
both = urllib.parse.urlencode([("t", "x y"), ("t", [1, 2])], doseq=True)
result = [
    query,
    both,
    quote("a/b c+é~"),
    quote("a/b", safe=""),
    urllib.parse.quote_plus("a b/c"),
    unquote("a%20b%2Fc%C3%A9+"),
    urllib.parse.unquote_plus("a+b%2B"),
    parse_qs("a=1&a=2&b=x+y&c="),
    urllib.parse.parse_qsl("a=1&b=%20&c=", keep_blank_values=True),
]
urls = ["https://User:pw@Ex.com:8080/a/b;p?x=1&y#top", "/docs?x", "mailto:a@b.c", "//h/p", "HTTP://[::1]:99", "a;b/c;d", "x y:z", ""]
for url in urls:
    u = urllib.parse.urlparse(url)
    result.append([u.scheme, u.netloc, u.path, u.params, u.query, u.fragment, u.hostname, u.port])
