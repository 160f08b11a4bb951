-- Writes a connection record if it is the holder's.
-- keys: c
-- args: holder, ttl, user, profile, cid, rooms
local holder, ttl = arg(), int()
local old = call('HGET', key.c, 'holder')
if old and old ~= holder then return {'taken', now} end
call('HSET', key.c, 'holder', holder, 'user', arg(), 'profile', arg(), 'cid', arg(), 'rooms', arg())
call('PEXPIRE', key.c, math.max(1, ttl))
return {'ok', now}
