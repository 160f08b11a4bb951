-- Cancels everything that waits.
-- keys: h t e q i d dx z
-- args: channel, stamp, owner, profile, not after
-- include: root log ledger queue
local channel = arg()
stamp = arg()
local owner, profile, notAfter = arg(), arg(), int()
if not exists() then return {'none', now} end
if forbids(owner, profile) then return {'forbidden', now} end
if late(notAfter) then return {'expired', now} end
if num('ql') > 0 then
  cancelAll()
  commit(channel)
end
return {'ok', now}
