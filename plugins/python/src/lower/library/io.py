class _airlock_StringIO:
    def __init__(self, initial_value="", newline="\n"):
        self.parts = [initial_value]
        self.at = 0
        self.size = len(initial_value)
        self.lines = []
        self.lines_at = -1

    def getvalue(self):
        if len(self.parts) == 1:
            return self.parts[0]
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
        self.lines_at = -1
        self.size = max(self.size, self.at)
        return len(text)

    def writelines(self, lines):
        for line in lines:
            self.write(line)

    def read(self, size=-1):
        end = self.size if size is None or size < 0 else self.at + size
        text = self.getvalue()[self.at:end]
        self.at += len(text)
        return text

    def readline(self):
        if self.lines_at != self.at:
            self.lines = self.readlines()
            self.at -= sum([len(line) for line in self.lines])
            self.lines.reverse()
        line = self.lines.pop() if self.lines else ""
        self.at += len(line)
        self.lines_at = self.at
        return line

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
