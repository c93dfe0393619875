class _airlock_Rows:
    def __init__(self, rows, fieldnames=None):
        self.rows = iter(rows)
        self.fieldnames = fieldnames

    def __iter__(self):
        return self.rows

    def __next__(self):
        return next(self.rows)

class _airlock_Writer:
    def __init__(self, out, delimiter, quotechar, quoting, lineterminator):
        self.out = out
        self.delimiter = delimiter
        self.quotechar = quotechar
        self.quoting = quoting
        self.lineterminator = lineterminator

    def writerow(self, row):
        row = list(row)
        fields = [self.field(it) for it in row]
        if fields == [""]:
            fields = [self.quotechar * 2]
        return self.out.write(self.delimiter.join(fields) + self.lineterminator)

    def writerows(self, rows):
        for row in rows:
            self.writerow(row)

    def field(self, it):
        text = "" if it is None else str(it)
        quote = self.quotechar
        special = [self.delimiter, quote, "\n", "\r"]
        is_number = isinstance(it, (int, float))
        if self.quoting == 1 or (self.quoting == 2 and not is_number) or (self.quoting == 0 and any([each in text for each in special])):
            return quote + text.replace(quote, quote * 2) + quote
        return text

class _airlock_DictWriter:
    def __init__(self, writer, fieldnames, restval, extrasaction):
        self.writer = writer
        self.fieldnames = fieldnames
        self.restval = restval
        self.extrasaction = extrasaction

    def writeheader(self):
        return self.writer.writerow(self.fieldnames)

    def writerow(self, row):
        extra = [key for key in row if key not in self.fieldnames]
        if extra and self.extrasaction == "raise":
            raise ValueError("dict contains fields not in fieldnames: " + ", ".join([repr(key) for key in extra]))
        return self.writer.writerow([row.get(key, self.restval) for key in self.fieldnames])

    def writerows(self, rows):
        for row in rows:
            self.writerow(row)

class _airlock_csv:
    QUOTE_MINIMAL = 0
    QUOTE_ALL = 1
    QUOTE_NONNUMERIC = 2
    QUOTE_NONE = 3

    def reader(csvfile, dialect="excel", *, delimiter=",", quotechar='"', skipinitialspace=False, quoting=0):
        return _airlock_Rows(_airlock_csv.parsed(csvfile, dialect, delimiter, quotechar, skipinitialspace, quoting))

    def DictReader(f, fieldnames=None, restkey=None, restval=None, dialect="excel", *, delimiter=",", quotechar='"', skipinitialspace=False, quoting=0):
        rows = _airlock_csv.parsed(f, dialect, delimiter, quotechar, skipinitialspace, quoting)
        names = fieldnames
        if names is None:
            names, rows = (rows[0], rows[1:]) if rows else (None, [])
        else:
            names = list(names)
        found = []
        for row in rows:
            if row:
                each = dict(zip(names, row))
                if len(row) > len(names):
                    each[restkey] = row[len(names):]
                for name in names[len(row):]:
                    each[name] = restval
                found.append(each)
        return _airlock_Rows(found, names)

    def writer(csvfile, dialect="excel", *, delimiter=",", quotechar='"', quoting=0, lineterminator="\r\n"):
        return _airlock_Writer(csvfile, "\t" if dialect == "excel-tab" else delimiter, quotechar, quoting, lineterminator)

    def DictWriter(f, fieldnames, restval="", extrasaction="raise", dialect="excel", **k):
        return _airlock_DictWriter(_airlock_csv.writer(f, dialect, **k), list(fieldnames), restval, extrasaction)

    def parsed(lines, dialect, delimiter, quote, skips, quoting):
        delimiter = "\t" if dialect == "excel-tab" else delimiter
        is_plain, has_numbers = quoting == 3 or not quote, quoting == 2
        # A field is "new", "bare", "open" within quotes, or "shut" behind them.
        rows, row, field, state, is_quoted = [], [], [], "new", False
        for line in lines:
            if state != "open":
                row, field, state, is_quoted = [], [], "new", False
                if is_plain or quote not in line:
                    text = line.rstrip("\r\n")
                    fields = text.split(delimiter) if text else []
                    fields = [it.lstrip(" ") for it in fields] if skips else fields
                    rows.append([float(it) if it else it for it in fields] if has_numbers else fields)
                    continue
            pieces = line.split(quote)
            last = len(pieces) - 1
            for at, piece in enumerate(pieces):
                if at:
                    if state == "open":
                        state = "shut"
                    elif state == "new":
                        state, is_quoted = "open", True
                    else:
                        field.append(quote)
                        state = "open" if state == "shut" else state
                if state == "open":
                    field.append(piece)
                    continue
                if at == last:
                    piece = piece.rstrip("\r\n")
                if not piece:
                    continue
                first, *rest = piece.split(delimiter)
                if skips and state == "new":
                    first = first.lstrip(" ")
                if first:
                    field.append(first)
                    state = "bare"
                for each in rest:
                    text = "".join(field)
                    row.append(float(text) if has_numbers and text and not is_quoted else text)
                    each = each.lstrip(" ") if skips else each
                    field, state, is_quoted = [each], "bare" if each else "new", False
            if state != "open":
                text = "".join(field)
                row.append(float(text) if has_numbers and text and not is_quoted else text)
                rows.append(row)
        if state == "open":
            rows.append([*row, "".join(field)])
        return rows
