-- Puts a session into a list, or moves it up. The list lives as long as the session
-- in it that was active last.
-- keys: u
-- args: member, last activity
local member, at = arg(), int()
local old = call('ZSCORE', key.u, member)
if not old or tonumber(old) < at then call('ZADD', key.u, at, member) end
if limits.retention > 0 then call('PEXPIRE', key.u, limits.retention + limits.margin) end
return {'ok', now}
