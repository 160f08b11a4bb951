-- Takes a place among the live upstream work of a gateway, or waits for one in the
-- order of first asking. g holds when each of both falls out, gw the tickets of
-- those that wait.
-- keys: g gw
-- args: run, limit, ttl
local run, limit, ttl = arg(), int(), math.max(1, int())
for _, late in ipairs(call('ZRANGEBYSCORE', key.g, '-inf', now)) do
  call('ZREM', key.g, late)
  call('ZREM', key.gw, late)
end
local known, ticket = call('ZSCORE', key.g, run), call('ZSCORE', key.gw, run)
call('ZADD', key.g, now + ttl, run)
if not known then
  local top = call('ZREVRANGE', key.gw, 0, 0, 'WITHSCORES')
  ticket = (tonumber(top[2]) or 0) + 1
  call('ZADD', key.gw, ticket, run)
end
for _, k in ipairs({key.g, key.gw}) do
  if call('PTTL', k) < ttl then call('PEXPIRE', k, ttl) end
end
if not ticket then return {'ok', now, 0} end
local place = call('ZRANK', key.gw, run) + 1
if place > limit - (call('ZCARD', key.g) - call('ZCARD', key.gw)) then return {'waiting', now, place} end
call('ZREM', key.gw, run)
return {'ok', now, 0}
