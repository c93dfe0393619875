class Paginator:
    """Iterates over the items of a page/next_page listing."""

    def __init__(self, fetch, key="items", max_pages=10):
        self.fetch = fetch
        self.key = key
        self.max_pages = max_pages
        self.calls = 0

    def __iter__(self):
        page = 1
        while page and self.calls < self.max_pages:
            response = self.fetch(page)
            self.calls += 1
            for item in response[self.key]:
                yield item
            page = response.get("next_page")

pager = Paginator(lambda p: tracker.list_issues(state="open", page=p))
titles = [i["title"] for i in pager]
long_titles = [t for t in titles if len(t.split()) >= 4]
limited = Paginator(lambda p: tracker.list_issues(state="open", page=p), max_pages=1)
result = {"n": len(titles), "calls": pager.calls, "long": long_titles, "first_page": sum(1 for _ in limited)}
