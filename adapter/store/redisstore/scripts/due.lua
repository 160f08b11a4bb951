-- Takes due members and sets them ahead, so that one sweeper works on each.
-- keys: *
-- args: how many, how far ahead
local left, ahead, found = int(), int(), {}
for _, w in ipairs(KEYS) do
  if left <= 0 then break end
  local due = call('ZRANGEBYSCORE', w, '-inf', now + 0.5, 'WITHSCORES', 'LIMIT', 0, left)
  for i = 1, #due, 2 do
    local parked = tonumber(due[i + 1]) % 1 ~= 0
    call('ZADD', w, now + ahead + (parked and 0.5 or 0), due[i])
    found[#found + 1] = {due[i], now + ahead, parked and 1 or 0}
    left = left - 1
  end
end
return {'ok', now, found}
