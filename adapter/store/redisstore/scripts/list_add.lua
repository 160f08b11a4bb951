-- Puts a session into a list, or moves it up.
-- keys: u
-- args: member, last activity
local member, at = arg(), int()
local old = call('ZSCORE', key.u, member)
if not old or tonumber(old) < at then call('ZADD', key.u, at, member) end
return {'ok', now}
