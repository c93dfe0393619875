template = "Dear {name}, you owe {amount:.2f}."
people_ = [{"name": "Ann", "amount": 3}, {"name": "Bob", "amount": 4.5}]
result = [template.format(**p) for p in people_]
