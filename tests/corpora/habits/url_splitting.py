from urllib.parse import urlsplit

urls = ["https://User:pw@Ex.com:8080/a/b;p?x=1&y#top", "/docs;a?x", "a/b;", "x y", "//h/p;q/r"]
result = []
for url in urls:
    u = urlsplit(url)
    result.append([u.scheme, u.netloc, u.path, u.query, u.fragment, u.hostname, u.port])
