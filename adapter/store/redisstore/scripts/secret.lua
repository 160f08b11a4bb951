-- Sets a value if there is none, or in any case, and answers the one that stands.
-- keys: p
-- args: candidate, 1 to replace
local candidate, replaces = arg(), int() == 1
if replaces then call('SET', key.p, candidate) else call('SET', key.p, candidate, 'NX') end
return {'ok', now, call('GET', key.p)}
