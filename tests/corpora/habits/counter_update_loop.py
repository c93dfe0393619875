from collections import Counter, OrderedDict
c = Counter()
for i in tracker.list_issues():
    c[i["author"]] += 1
    c.update(i["labels"])
od = OrderedDict(sorted(c.items()))
result = [dict(od), c.most_common()[0], sum(c.values()), [k for k, v in c.items() if v > 2]]
