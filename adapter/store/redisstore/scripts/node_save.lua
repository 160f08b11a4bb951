-- Writes the record of a node that lives, or removes it.
-- keys: n
-- args: ttl (0 removes it), fields (name, value)
local ttl = int()
if ttl <= 0 then
  call('DEL', key.n)
else
  local record = {}
  for i = 1, 2 * int() do record[i] = arg() end
  call('HSET', key.n, unpack(record))
  call('PEXPIRE', key.n, ttl)
end
return {'ok', now}
