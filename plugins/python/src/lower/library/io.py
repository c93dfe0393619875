class _airlock_StringIO:
    def __init__(self, initial_value="", newline="\n"):
        self.parts = [initial_value]
        self.at = 0
        self.size = len(initial_value)

    def getvalue(self):
        text = "".join(self.parts)
        self.parts = [text]
        return text

    def write(self, text):
        if self.at == self.size:
            self.parts.append(text)
        else:
            old = self.getvalue()
            self.parts = [old[:self.at] + text + old[self.at + len(text):]]
        self.at += len(text)
        self.size = max(self.size, self.at)
        return len(text)

    def writelines(self, lines):
        for line in lines:
            self.write(line)

    def read(self, size=-1):
        text = self.getvalue()[self.at:]
        text = text if size is None or size < 0 else text[:size]
        self.at += len(text)
        return text

    def readline(self):
        line, end, _ = self.getvalue()[self.at:].partition("\n")
        self.at += len(line) + len(end)
        return line + end

    def readlines(self):
        lines = self.read().split("\n")
        last = lines.pop()
        return [line + "\n" for line in lines] + ([last] if last else [])

    def __iter__(self):
        return iter(self.readlines())

    def __next__(self):
        line = self.readline()
        if not line:
            raise StopIteration
        return line

    def seek(self, at, whence=0):
        self.at = at if whence == 0 else self.size
        return self.at

    def tell(self):
        return self.at

    def close(self):
        return None

    def __enter__(self):
        return self

    def __exit__(self, *a):
        return False

class _airlock_io:
    def StringIO(initial_value="", newline="\n"):
        return _airlock_StringIO(initial_value or "", newline)
