-- The names of nodes that may live, by when they are forgotten.
-- keys: n
-- args: name to add or remove (may be empty), ttl (0 removes it)
local name, ttl = arg(), int()
if name ~= '' then
  if ttl > 0 then
    call('ZADD', key.n, now + ttl, name)
    if call('PTTL', key.n) < ttl then call('PEXPIRE', key.n, ttl) end
  else
    call('ZREM', key.n, name)
  end
  call('ZREMRANGEBYSCORE', key.n, '-inf', now)
end
return {'ok', now, call('ZRANGEBYSCORE', key.n, '(' .. now, '+inf')}
