-- Replaces the holder of a user's connection record and answers it as it was.
-- keys: c
-- args: user, holder, ttl
local user, holder, ttl = arg(), arg(), int()
local old = call('HMGET', key.c, 'user', 'profile', 'cid', 'holder', 'rooms')
if not old[1] then return {'none', now, {}} end
if old[1] ~= user then return {'forbidden', now, {}} end
call('HSET', key.c, 'holder', holder)
call('PEXPIRE', key.c, math.max(1, ttl))
return {'ok', now, old}
