-- Renews the lease.
-- keys: h d l
-- args: token, run, last acknowledged sequence, ttl
-- root: v ep del tok run as s z ql ab mv
-- include: root log ledger run owner
local token, run, seq, ttl = arg(), arg(), int(), int()
local no = refusal(token, run)
if no then return refused(no, run) end
if num('as') < seq then return refused('back', run) end
call('SET', key.l, token, 'PX', math.max(1, ttl))
local o, z = position()
return reply('ok', o, z, o, z, now, {}, '')
