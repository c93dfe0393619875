class _airlock_Url:
    def __init__(self, scheme, netloc, path, params, query, fragment):
        self.scheme = scheme
        self.netloc = netloc
        self.path = path
        self.params = params
        self.query = query
        self.fragment = fragment
        account, at, host = netloc.rpartition("@")
        user, colon, password = account.partition(":")
        self.username = user if at else None
        self.password = password if colon else None
        if host.startswith("["):
            name, _, port = host[1:].partition("]")
            port = port[1:]
        else:
            name, _, port = host.partition(":")
        self.hostname = name.lower() or None
        self.port = int(port) if port else None

    def __iter__(self):
        params = [] if self.params is None else [self.params]
        return iter([self.scheme, self.netloc, self.path, *params, self.query, self.fragment])

    def geturl(self):
        text = f"//{self.netloc}{self.path}" if self.netloc else self.path
        text = f"{self.scheme}:{text}" if self.scheme else text
        text = f"{text};{self.params}" if self.params else text
        text = f"{text}?{self.query}" if self.query else text
        return f"{text}#{self.fragment}" if self.fragment else text

class _airlock_urllib_parse:
    def quote(string, safe="/", encoding=None, errors=None):
        kept = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-~" + safe
        data = string if isinstance(string, bytes) else string.encode()
        return "".join([chr(each) if each < 128 and chr(each) in kept else f"%{each:02X}" for each in data])

    def quote_plus(string, safe="", encoding=None, errors=None):
        return _airlock_urllib_parse.quote(string, safe + " ").replace(" ", "+")

    def unquote(string, encoding="utf-8", errors="replace"):
        import re
        pieces, at = [], 0
        for match in re.finditer(r"(?:%[0-9a-fA-F]{2})+", string):
            pieces.append(string[at:match.start()])
            pieces.append(bytes.fromhex(match.group().replace("%", "")).decode("utf-8", "replace"))
            at = match.end()
        return "".join(pieces) + string[at:]

    def unquote_plus(string, encoding="utf-8", errors="replace"):
        return _airlock_urllib_parse.unquote(string.replace("+", " "))

    def urlencode(query, doseq=False, safe="", encoding=None, errors=None, quote_via=None):
        quote = quote_via or _airlock_urllib_parse.quote_plus
        pairs = []
        for key, value in query.items() if isinstance(query, dict) else query:
            many = value if doseq and isinstance(value, (list, tuple)) else [value]
            pairs.extend([(key, each) for each in many])
        return "&".join([quote(str(key), safe) + "=" + quote(str(value), safe) for key, value in pairs])

    def parse_qsl(qs, keep_blank_values=False):
        pairs = []
        for part in qs.split("&"):
            key, _, value = part.partition("=")
            if part and (value or keep_blank_values):
                pairs.append((_airlock_urllib_parse.unquote_plus(key), _airlock_urllib_parse.unquote_plus(value)))
        return pairs

    def parse_qs(qs, keep_blank_values=False):
        found = {}
        for key, value in _airlock_urllib_parse.parse_qsl(qs, keep_blank_values):
            found.setdefault(key, []).append(value)
        return found

    def urlparse(url, scheme="", allow_fragments=True):
        it = _airlock_urllib_parse.urlsplit(url, scheme, allow_fragments)
        head, slash, last = it.path.rpartition("/")
        last, _, params = last.partition(";")
        return _airlock_Url(it.scheme, it.netloc, head + slash + last, params, it.query, it.fragment)

    def urlsplit(url, scheme="", allow_fragments=True):
        text, _, fragment = url.partition("#") if allow_fragments else (url, "", "")
        before, colon, after = text.partition(":")
        if colon and before[:1].isalpha() and before.replace("+", "").replace("-", "").replace(".", "").isalnum():
            scheme, text = before.lower(), after
        text, _, query = text.partition("?")
        netloc = ""
        if text.startswith("//"):
            netloc, slash, path = text[2:].partition("/")
            text = slash + path
        return _airlock_Url(scheme, netloc, text, None, query, fragment)
