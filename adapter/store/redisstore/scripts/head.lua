-- The root of a session.
-- lane: reads
-- keys: h l
local token = call('HGET', key.h, 'tok')
local alive = token and token ~= '' and call('GET', key.l) == token
return {'ok', now, alive and 1 or 0, call('HGETALL', key.h)}
