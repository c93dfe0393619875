from urllib.parse import urljoin, urlsplit

bases = ["https://a.com/b/c/d?q=1#f", "https://a.com", "http://a.com/b/", "/x/y", "x/y", "", "mailto:a@b.c"]
links = ["e", "/e/f", "../e", "../../../../e", "./", "..", "?p=2", "#top", "//h.com/z", "http://z/y", "", "e;p?x#y", "a//b/./c", "mailto:x@y", "g/../h", ";p"]
result = [[urljoin(base, link) for link in links] for base in bases]
urls = ["https://User:pw@Ex.com:8080/a/b;p?x=1&y#top", "/docs;a?x", "a/b;", "x y"]
for url in urls:
    u = urlsplit(url)
    result.append([u.scheme, u.netloc, u.path, u.query, u.fragment, u.hostname, u.port])
