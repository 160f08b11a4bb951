-- Writes events and rows of the active run under its owner's token, and renews the lease.
-- keys: h t e q d dx k l z
-- args: channel, stamp, token, run, sequence, ttl, phase, wire id,
--       1 if upstream is set, upstream, 1 if a checkpoint is set, checkpoint,
--       events (kind, name, payload), rows (role, data)
-- root: v ep del tok run as s z lb ql dq qd ab mv r msgs tools rj kc
-- include: root log trim rows ledger queue run owner
local channel = arg()
stamp = arg()
local token, run, seq, ttl = arg(), arg(), int(), int()
local no = refusal(token, run)
if no then return refused(no, run) end
if seq == num('as') then
  local kept = call('HGET', key.h, 'ar')
  if not kept or kept == '' then return refused('back', run) end
  set('ar', kept)
  return stored('dup')
end
if seq ~= num('as') + 1 then return refused('back', run) end

local phase, wire = arg(), arg()
if phase ~= '' then set('ph', phase) end
if wire ~= '' then set('rid', wire) end
local hasUpstream, upstream = int() == 1, arg()
if hasUpstream then set('up', upstream) end
local folded, checkpoint = int() == 1, arg()
local bo, bz = position()
events(run)
local ids = runRows(run)
if folded then
  set('kc', num('s'))
  write('SET', key.k, checkpoint)
end
set('as', seq)
local lo, lz = position()
set('ar', cmsgpack.pack(result(bo, bz, ids)))
lease(token, ttl)
commit(channel)
if folded then trim(num('kc')) end
return reply('ok', bo, bz, lo, lz, now, ids, '')
