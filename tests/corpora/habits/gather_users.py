logins = sorted({i["author"] for i in tracker.list_issues()})
users = gather([(people.get_user, {"login": l}) for l in logins], limit=2)
states = gather([(people.get_user, {"login": "ann"}), (people.get_user, {"login": "zed"})], attempt=True)
result = [[u["name"] for u in users], [s.ok for s in states]]
