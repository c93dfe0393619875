class _airlock_urllib:
    parse = _airlock_urllib_parse
