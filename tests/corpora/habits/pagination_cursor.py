def fetch_all(query):
    hits, cursor = [], None
    while True:
        page = tracker.search(query=query, cursor=cursor) if cursor else tracker.search(query=query)
        hits.extend(page["hits"])
        cursor = page["cursor"]
        if cursor is None:
            return hits

result = fetch_all("bug")
