-- Removes an idle session, or marks a busy one for removal at the end of its run.
-- keys: h t e q i d dx k l n a z
-- args: channel, stamp, owner, profile, operation id, not after
-- include: root log ledger queue life
local channel = arg()
stamp = arg()
local owner, profile, op, notAfter = arg(), arg(), arg(), int()
if forbids(owner, profile) then return {'forbidden', now} end
local known = op ~= '' and recall('o' .. op)
if known then return {known.c, now} end
if not exists() then return {'none', now} end
if late(notAfter) then return {'expired', now} end
local code = 'done'
cancelAll()
if str('run') ~= '' then
  code = 'busy'
  set('del', '1')
else
  purge()
end
if op ~= '' then enter('o' .. op, {c = code}) end
commit(channel)
return {code, now}
