import csv
import io

# Quotes within fields, at their ends, and over lines.
lines = ['1,"a",2.5', '"x ""y"" z",b\r\n', 'a"b"c,"d"e"f",\'q\'\n', '"over\n', 'two",end\n', "", ",", '"",""', '"""a"""']
lines += ['a, "b c" ,d', '"é,ü",ö', '"a,b', 'c"",d"']
rows = list(csv.reader(lines))
skipped = list(csv.reader(['a,  "b, c", d', "  x,   ,y"], skipinitialspace=True))
numbers = [list(csv.reader(text, quoting=csv.QUOTE_NONNUMERIC)) for text in (['1,"2",2.5', "3,-4"], ['"a",,1', '"",5e2'])]
plain = list(csv.reader(['"a",b"'], quoting=csv.QUOTE_NONE))
try:
    list(csv.reader(["1,x"], quoting=csv.QUOTE_NONNUMERIC))
    refused = None
except ValueError as e:
    refused = str(e)
kinds = [type(csv.reader([])).__name__, type(io.StringIO()).__name__]
tabs = list(csv.reader(["'a\tb'\tc"], delimiter="\t", quotechar="'"))
long = [len(list(csv.reader(['"a",' * 3000]))[0]), len(list(csv.reader(['"' + "a," * 3000 + '"']))[0][0])]
result = [rows, skipped, numbers, plain, refused, kinds, tabs, long]
