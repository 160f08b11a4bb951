-- Prolongs a connection record, or removes it, if it is the holder's.
-- keys: c
-- args: holder, ttl (0: remove)
local holder, ttl = arg(), int()
local old = call('HGET', key.c, 'holder')
if not old then return {'none', now} end
if old ~= holder then return {'taken', now} end
if ttl > 0 then call('PEXPIRE', key.c, ttl) else call('DEL', key.c) end
return {'ok', now}
