import csv, io

text = files.read(path="data.csv")
rows = list(csv.DictReader(io.StringIO(text)))
quoted = 'name;note\n"Ann; B";"said ""hi"""\n\n"two\nlines";\nx\na;b;c;d\n'
reader = csv.DictReader(io.StringIO(quoted), delimiter=";")
fields = reader.fieldnames
more = [dict(r) for r in reader]
plain = csv.reader(["a, b,c", "1,'2, 3',"], quotechar="'", skipinitialspace=True)
header = next(plain)
body = [row for row in plain]
named = list(csv.DictReader("1,2\n3".splitlines(), fieldnames=["x", "y"], restval="-"))
odd = list(csv.reader(io.StringIO('a"b,"c"d,"",\r\n\r\n"e'), delimiter=","))
for line in csv.reader(text.splitlines()):
    print(line)
rest = [{str(k): v for k, v in r.items()} for r in more]
result = [rows, fields, rest, header, body, named, odd]
