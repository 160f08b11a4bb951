-- Takes a session out of a list if its score is still the one seen and old.
-- keys: u
-- args: member, score seen, age
local member, seen, age = arg(), int(), int()
local score = tonumber(call('ZSCORE', key.u, member) or -1)
if score == seen and score + age < now then call('ZREM', key.u, member) end
return {'ok', now}
