-- Sets a member's due time, or removes it, if its score is still the one seen.
-- keys: w
-- args: member, score seen, 1 to remove, delay, 1 if parked
local member, seen, remove, delay, parked = arg(), int(), int() == 1, int(), int()
local score = call('ZSCORE', key.w, member)
if not score or math.floor(tonumber(score)) ~= seen then return {'none', now} end
if remove then
  call('ZREM', key.w, member)
else
  call('ZADD', key.w, now + delay + parked / 2, member)
end
return {'ok', now}
