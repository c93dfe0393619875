from typing import Any, Dict, List, Optional, Tuple, Union
Row = Dict[str, Any]

def pick(rows: List[Row], key: str, default: Optional[str] = None) -> List[Tuple[int, Union[str, None]]]:
    found: List[Tuple[int, Any]] = []
    index: int
    for index, row in enumerate(rows):
        found.append((index, row.get(key, default)))
    return found

names: list[str] = []
result = pick(people.list_users(), "team") + names
