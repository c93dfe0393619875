roles = {"admin": {"read", "write", "delete"}, "user": {"read"}, "bot": {"read", "write"}}
all_perms = sorted(set().union(*roles.values()))
result = {role: {p: (p in perms) for p in all_perms} for role, perms in roles.items()}
