open_authors = {i["author"] for i in tracker.list_issues() if i["state"] == "open"}
inactive = {u["login"] for u in people.list_users() if not u["active"]}
result = {"both": sorted(open_authors & inactive), "all": sorted(open_authors | inactive), "n": len(open_authors), "sub": {"ann"} <= open_authors if False else {"ann"}.issubset(open_authors)}
