users = people.list_users()
assert len(users) == 4, "expected four users"
assert users
result = "ok"
