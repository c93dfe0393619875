import asyncio
def _airlock_one(it):
    return _airlock_raise(it) if isinstance(it, _airlock_failed) else it
def _airlock_any(it):
    if type(it) is list:
        for each in it:
            _airlock_one(each)
    return _airlock_one(it)
def _airlock_task(it, *, name=None, context=None):
    return it
def _airlock_nothing(value=0):
    return None
async def _airlock_wait_for(it, timeout=None):
    return _airlock_any(await it)
async def _airlock_settled(it):
    try:
        return _airlock_any(await it)
    except Exception as error:
        return error
async def _airlock_gather(*them, return_exceptions=False):
    if return_exceptions:
        return await asyncio.gather(*[_airlock_settled(it) for it in them])
    return await asyncio.gather(*them)
